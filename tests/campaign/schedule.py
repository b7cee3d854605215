"""Several faults at once, each a generator: it says what it waits for, and goes on when that has come."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from tests.support.cluster import CLOCK

Wait = float | Callable[[], bool]
"""Seconds, or what must become true."""
Fault = Generator[Wait, None, None]
PATIENCE_MS = 150_000
"""A broker that starts on a busy machine takes so long at most."""


@dataclass
class _Running:
    name: str
    takes: frozenset[object]
    steps: Fault
    wait: Wait
    since_ms: int


class Schedule:
    """Faults that have begun. `takes`: what no other fault may touch until it has ended."""

    def __init__(self) -> None:
        self._running: list[_Running] = []

    @property
    def taken(self) -> set[object]:
        """What faults have a hold of."""
        return {each for running in self._running for each in running.takes}

    @property
    def is_idle(self) -> bool:
        """Whether all have ended."""
        return not self._running

    def begin(self, name: str, takes: set[object], steps: Fault) -> None:
        """Its first step is done at once."""
        running = _Running(name, frozenset(takes), steps, 0.0, CLOCK.monotonic_ms())
        self._running.append(running)
        self._advance(running)

    def step(self) -> None:
        """Go on with those whose wait is over. Raises AssertionError for one that waits in vain."""
        for running in list(self._running):
            waited = CLOCK.monotonic_ms() - running.since_ms
            if callable(running.wait):
                if running.wait():
                    self._advance(running)
                else:
                    assert waited < PATIENCE_MS, f"{running.name} waits in vain: {sorted(map(str, running.takes))}"
            elif waited >= running.wait * 1000:
                self._advance(running)

    def _advance(self, running: _Running) -> None:
        try:
            running.wait = next(running.steps)
            running.since_ms = CLOCK.monotonic_ms()
        except StopIteration:
            self._running.remove(running)
