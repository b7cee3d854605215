"""Sends frames over many connections at once, one waiting for its answer on each, and reads what comes back."""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from network.protocol.errors import ProtocolError
from network.protocol.header import RequestHeader, decode_response, encode_request
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from network.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.fuzz.control import LEAVES, good_frame
from tests.fuzz.frames import Frame, any_frame
from tests.support.cluster import CLOCK, HOST

CONNECTIONS = 48
PATIENCE_MS = 300
"""For an answer; then the connection is left, as by a client that gives up. Some requests wait by right."""
KINDS = ("open", "open", "login", "half", "inside")
"""Of connections: without a login, before it, in the middle of it, after it."""
USER = b"\0admin\0admin-secret"


class Lane:
    """One connection and what it waits for."""

    def __init__(self, kind: str, port: int) -> None:
        self.kind = kind
        self.socket = socket.create_connection((HOST, port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frame: Frame | None = None
        self.sent_ns = 0
        self.data = bytearray()
        if kind in ("half", "inside"):
            self.say(encode_request(RequestHeader(17, 1, 0, "fuzz"), SaslHandshakeRequest(mechanism="PLAIN")))
        if kind == "inside":
            self.say(encode_request(RequestHeader(36, 2, 0, "fuzz"), SaslAuthenticateRequest(auth_bytes=USER)))

    def say(self, data: bytes) -> None:
        """One request, and its answer, which is not looked at."""
        self.socket.sendall(data)
        size = int.from_bytes(self.socket.recv(4, socket.MSG_WAITALL), "big")
        assert len(self.socket.recv(size, socket.MSG_WAITALL)) == size

    def send(self, frame: Frame) -> None:
        self.frame, self.sent_ns = frame, CLOCK.monotonic_ns()
        self.data.clear()
        self.socket.sendall(frame.data)

    def whole(self) -> bytes | None:
        """The answer without its size, once it is complete."""
        if len(self.data) < 4 or len(self.data) - 4 < int.from_bytes(self.data[:4], "big"):
            return None
        return bytes(self.data[4:])


class Sent(NamedTuple):
    """When a frame was under way (CLOCK.monotonic_ns), and what it was."""

    began_ns: int
    ended_ns: int
    api: str


class Attacker:
    """`ends` counts how frames ended: answered, closed, left; `faults`: what no broker may do; `sent` tells of each.

    One that is `harmless` is the control: it draws the same frames, which costs it as much, sends a good and cheap one
    in place of each, and leaves about as often as the broker would have closed.
    """

    def __init__(self, ports: dict[str, int], seed: int, *, harmless: bool = False) -> None:
        self.ends: Counter[str] = Counter()
        self.faults: list[str] = []
        self.sent: list[Sent] = []
        self._harmless = harmless
        self._ports = ports
        # One of its own for each kind of connection, whose frames are then the same whichever is answered first.
        self._draws = {kind: random.Random(f"{seed} {kind}") for kind in KINDS}
        self._number = 0
        self._selector = selectors.DefaultSelector()

    def run(self, frames: int) -> None:
        """Sends so many and returns when each has ended."""
        left = frames
        lanes = {self._enter(number) for number in range(min(CONNECTIONS, frames))}
        for lane in list(lanes):
            left -= self._next(lane)
        while lanes:
            for lane, ended in self._ended(lanes):
                if ended != "answered":
                    self._leave(lane)
                    lanes.discard(lane)
                if left > 0:
                    if ended != "answered":
                        lane = self._enter(self._number)
                        lanes.add(lane)
                    left -= self._next(lane)
                elif ended == "answered":
                    self._leave(lane)
                    lanes.discard(lane)

    def _enter(self, number: int) -> Lane:
        kind = KINDS[number % len(KINDS)]
        lane = Lane(kind, self._ports["PLAINTEXT" if kind == "open" else "OPEN"])
        self._selector.register(lane.socket, selectors.EVENT_READ, lane)
        return lane

    def _leave(self, lane: Lane) -> None:
        self._selector.unregister(lane.socket)
        lane.socket.close()

    def _next(self, lane: Lane) -> int:
        self._number += 1
        draws, login = self._draws[lane.kind], lane.kind in ("login", "half")
        frame = any_frame(draws, self._number, login=login)
        if self._harmless:
            frame = good_frame(draws, self._number, login=login)
        with contextlib.suppress(OSError):  # the broker has closed it: the selector tells
            lane.send(frame)
        return 1

    def _ended(self, lanes: set[Lane]) -> Iterator[tuple[Lane, str]]:
        for key, _ in self._selector.select(0.05):
            lane: Lane = key.data
            try:
                data = lane.socket.recv(1 << 18)
            except OSError:
                data = b""
            lane.data += data
            ended = "closed" if not data else "answered" if lane.whole() is not None else None
            if ended == "answered" and self._harmless and self._draws[lane.kind].random() < LEAVES:
                ended = "closed"
            if ended is not None:
                self._judge(lane, ended)
                yield lane, ended
        patient_since = CLOCK.monotonic_ns() - PATIENCE_MS * 1_000_000
        for lane in [each for each in lanes if each.frame is not None and each.sent_ns < patient_since]:
            self._judge(lane, "left")
            yield lane, "left"

    def _judge(self, lane: Lane, ended: str) -> None:
        frame = lane.frame
        assert frame is not None
        self.ends[ended] += 1
        self.ends[frame.kind] += 1
        self.sent.append(Sent(lane.sent_ns, CLOCK.monotonic_ns(), frame.api()))
        lane.frame = None
        data = lane.whole()
        # A login that goes on speaks SASL's own frames, and a version from the future is answered in version 0.
        if ended == "answered" and data is not None and frame.header is not None and lane.kind in ("open", "inside"):
            try:
                decode_response(frame.header, data)
            except ProtocolError as error:
                self.faults.append(f"{frame.header}: {error}: {frame.data.hex()}")
