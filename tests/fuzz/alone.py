"""What single frames cost others: each is sent by itself, and a neighbour asks until it has ended."""

from __future__ import annotations

import contextlib
import heapq
import random
import select
from collections.abc import Iterator
from dataclasses import dataclass, field

from network.protocol.header import RequestHeader, encode_request
from network.protocol.messages.metadata import MetadataRequest
from tests.fuzz.attacker import KINDS, PATIENCE_MS, Lane
from tests.fuzz.frames import Frame, any_frame
from tests.fuzz.large import large_frames
from tests.support.cluster import CLOCK

MOST_KEPT = 40
AGAIN = 3
"""The longest waits are tried so often once more: what the machine did goes away, what the frame does stays."""
_QUESTION = encode_request(RequestHeader(3, 9, 0, "neighbour"), MetadataRequest(topics=[]))


@dataclass(order=True, slots=True)
class Cost:
    """The longest answer to the neighbour on the same listener while a frame was under way."""

    wait_ms: float
    number: int
    kind: str = field(compare=False)
    frame: Frame = field(compare=False)
    first_ms: float = field(compare=False)
    """Of the first trial, which may have made or removed something."""

    def __str__(self) -> str:
        return f"{self.wait_ms:.1f} ms (the first time {self.first_ms:.1f}): {self.frame.label()}, {self.kind}"


class Alone:
    """`costs` has the most expensive frames, the worst first, as of the cheapest of their trials."""

    def __init__(self, ports: dict[str, int], seed: int) -> None:
        self._ports = ports
        self._draws = {kind: random.Random(f"{seed} {kind}") for kind in KINDS}
        self._lanes: dict[str, Lane] = {}
        self._neighbours = {"open": Lane("open", ports["PLAINTEXT"]), "inside": Lane("inside", ports["OPEN"])}
        self.costs: list[Cost] = []

    def run(self, frames: int) -> list[Cost]:
        """Sends so many, one after the other, and returns `costs`."""
        kept: list[Cost] = []
        for number in range(frames):
            kind = KINDS[number % len(KINDS)]
            frame = any_frame(self._draws[kind], number, login=kind in ("login", "half"))
            wait_ms = self._wait_ms(kind, frame)
            heapq.heappush(kept, Cost(wait_ms, number, kind, frame, wait_ms))
            if len(kept) > MOST_KEPT:
                heapq.heappop(kept)
        for cost in kept:
            cost.wait_ms = min(cost.wait_ms, *(self._wait_ms(cost.kind, cost.frame) for _ in range(AGAIN)))
        self.costs = sorted(kept, reverse=True)
        for lane in (*self._lanes.values(), *self._neighbours.values()):
            lane.socket.close()
        return self.costs

    def large(self, seed: int) -> Iterator[Cost]:
        """What each of the large frames costs."""
        for number, frame in enumerate(large_frames(seed)):
            wait_ms = self._wait_ms("open", frame)
            yield Cost(wait_ms, number, "open", frame, wait_ms)

    def _wait_ms(self, kind: str, frame: Frame) -> float:
        lane = self._lanes.pop(kind, None) or Lane(kind, self._ports["PLAINTEXT" if kind == "open" else "OPEN"])
        neighbour = self._neighbours["open" if kind == "open" else "inside"]
        longest, began = 0.0, CLOCK.monotonic_ms()
        with contextlib.suppress(OSError):
            lane.send(frame)
            while CLOCK.monotonic_ms() - began < max(PATIENCE_MS, len(frame.data) // 100):
                asked = CLOCK.monotonic_ns()
                neighbour.say(_QUESTION)
                longest = max(longest, (CLOCK.monotonic_ns() - asked) / 1e6)
                if select.select([lane.socket], [], [], 0)[0]:
                    lane.data += (data := lane.socket.recv(1 << 18))
                    if data and lane.whole() is None:
                        continue
                    if data:
                        self._lanes[kind] = lane
                    break
        if kind not in self._lanes:
            lane.socket.close()
        return longest
