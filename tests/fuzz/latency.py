"""What the bystander saw, over all rounds: with nobody else there, beside good frames, and beside bad ones."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from tests.fuzz.attacker import Sent
from tests.support.bystander import Seen

MOST = 2.0
"""Times what it is beside as many good frames, drawn by as busy an attacker; of the median and the 99th percentile."""
NOISE_MS = 1.0
"""A difference that no client notices, and two busy cores make."""
LEAST, MOST_SUSPECTS = 5, 8
"""Times under way before it says something; how many are told."""
ENOUGH = 1_000
"""Requests beside good frames without which a percentile says little."""


class Latency:
    """Milliseconds of requests and produce by circumstance: quiet, good, bad."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, list[float]]] = {}
        self.frames: dict[str, tuple[int, float]] = {}
        self.stalls: list[float] = []
        self._under_way: Counter[str] = Counter()
        self._sent: Counter[str] = Counter()

    def add(self, circumstance: str, seen: Seen, frames: int, seconds: float) -> None:
        kept = self.values.setdefault(circumstance, {"request": [], "produce": [], "login": []})
        kept["request"] += seen.requests
        kept["produce"] += seen.produced
        kept["login"] += seen.logins
        before = self.frames.get(circumstance, (0, 0.0))
        self.frames[circumstance] = before[0] + frames, before[1] + seconds

    def note_stalls(self, seen: Seen, sent: Sequence[Sent], longer_than_ms: float) -> None:
        """Which frames were under way when the bystander waited longest: those that took most of that time."""
        self._sent.update(each.api for each in sent)
        for began, ended in seen.waits:
            if ended - began > longer_than_ms * 1e6:
                self.stalls.append((ended - began) / 1e6)
                self._under_way.update(
                    each.api
                    for each in sent
                    if min(each.ended_ns, ended) - max(each.began_ns, began) > (ended - began) * 0.7
                )

    def suspects(self) -> str:
        """The APIs that were under way in stalls more often than chance has it."""
        all_under_way, all_sent = self._under_way.total() or 1, self._sent.total() or 1
        often = {
            api: count / all_under_way / (self._sent[api] / all_sent)
            for api, count in self._under_way.items()
            if count >= LEAST
        }
        first = sorted(often, key=lambda api: -often[api])[:MOST_SUSPECTS]
        named = ", ".join(f"{api} {self._under_way[api]} times, {often[api]:.1f} of chance" for api in first)
        longest = f"the longest {max(self.stalls):.0f} ms" if self.stalls else "none"
        return f"{len(self.stalls)} stalls, {longest}; under way then: {named}"

    def lines(self) -> list[str]:
        found = []
        for circumstance, kinds in self.values.items():
            frames, seconds = self.frames[circumstance]
            figures = ", ".join(f"{kind} {_figures(values)}" for kind, values in kinds.items() if values)
            found.append(
                f"{circumstance}: {frames / max(seconds, 0.001):.0f} frames/s; median / 99th / longest: {figures}"
            )
        return found

    def faults(self) -> list[str]:
        """What is beyond `MOST`; nothing where too little was measured."""
        found = []
        for kind in ("request", "produce"):
            good, bad = self.values["good"][kind], self.values["bad"][kind]
            if len(good) < ENOUGH:
                continue
            for name, share in (("median", 0.5), ("99th percentile", 0.99)):
                control, attacked = percentile(good, share), percentile(bad, share)
                if attacked > MOST * control + NOISE_MS:
                    found.append(
                        f"{kind}: the bystander's {name} is {attacked:.1f} ms, and {control:.1f} beside good frames"
                    )
        return found


def percentile(values: Sequence[float], share: float) -> float:
    """By nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _figures(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} / {percentile(values, 0.99):.1f} / {max(values):.0f} ms"
