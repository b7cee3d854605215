"""Measures of use, each against a bound: two rates over a window, and a bucket of tokens (KIP-13, KIP-73, KIP-599).

Neither asks the time, and neither is safe for several threads.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

UNLIMITED: Final = float("inf")


class Window(NamedTuple):
    """`quota.window.num` samples of `quota.window.size.seconds`."""

    samples: int = 11
    size_ms: int = 1000


class QuotaRate:
    """Units per second over the window.

    A client that has just come is measured as if it had been there without doing anything, for all samples but the
    one that runs: so it may use at once what the window allows.
    """

    __slots__ = ("_samples", "_window", "bound")

    def __init__(self, bound: float, window: Window) -> None:
        self.bound = bound
        self._window = window
        self._samples: deque[list[float]] = deque()
        """[start in ms, sum, how many, the last one's ms], oldest first."""

    def record(self, value: float, now_ms: float) -> None:
        """Count; a negative value takes back."""
        self._expire(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._window.size_ms:
            self._samples.append([now_ms, 0.0, 0, now_ms])
        sample = self._samples[-1]
        sample[1] += value
        sample[2] += 1
        sample[3] = now_ms

    def per_second(self, now_ms: float) -> float:
        """The rate now."""
        self._expire(now_ms)
        elapsed = self._elapsed_ms(now_ms)
        return sum(sample[1] for sample in self._samples) * 1000 / elapsed if elapsed else 0.0

    def mean(self, now_ms: float) -> float:
        """What was counted at a time, on average; 0 if nothing was."""
        self._expire(now_ms)
        count = sum(sample[2] for sample in self._samples)
        return sum(sample[1] for sample in self._samples) / count if count else 0.0

    def delay_ms(self, now_ms: float) -> int:
        """How long nothing may be counted until the rate is back at the bound; 0 within it."""
        if self.bound == UNLIMITED:
            return 0
        rate = self.per_second(now_ms)
        if rate <= self.bound:
            return 0
        if self.bound <= 0:
            return self._window.samples * self._window.size_ms
        return round((rate - self.bound) / self.bound * self._elapsed_ms(now_ms))

    def largest(self) -> float:
        """What may be counted at once without a certain delay."""
        return self.bound * (self._window.samples - 1) * self._window.size_ms / 1000

    def _elapsed_ms(self, now_ms: float) -> float:
        size = self._window.size_ms
        elapsed = now_ms - self._samples[0][0] if self._samples else 0
        return elapsed + max(0, self._window.samples - 1 - elapsed // size) * size

    def _expire(self, now_ms: float) -> None:
        """A sample counts until the window has passed since the last thing in it, so there may be one more than
        `quota.window.num`: forgotten as a whole by its beginning, a burst would be followed by a gap."""
        limit = now_ms - self._window.samples * self._window.size_ms
        while self._samples and self._samples[0][3] <= limit:
            self._samples.popleft()


class SimpleRate(QuotaRate):
    """The same over the time since the oldest sample began, but never over less than one: who has just come may use
    what one sample allows. Replication is throttled by it."""

    __slots__ = ()

    def _elapsed_ms(self, now_ms: float) -> float:
        size = self._window.size_ms
        return max(now_ms - self._samples[0][0], size) if self._samples else size


class TokenBucket:
    """Fills at the bound, holds as much as fits in the window, and may be overdrawn once."""

    __slots__ = ("_at_ms", "_tokens", "_window", "bound")

    def __init__(self, bound: float, window: Window, now_ms: float) -> None:
        self.bound = bound
        self._window = window
        self._tokens = self._burst
        self._at_ms = now_ms

    @property
    def _burst(self) -> float:
        return self.bound * self._window.samples * self._window.size_ms / 1000

    def tokens(self, now_ms: float) -> float:
        """What is left; negative when overdrawn."""
        self._fill(now_ms)
        return self._tokens

    def take(self, count: float, now_ms: float) -> None:
        """Take tokens, whether there are any or not."""
        self._fill(now_ms)
        self._tokens = min(self._tokens - count, self._burst)

    def delay_ms(self, now_ms: float) -> int:
        """How long until there are no fewer than none."""
        tokens = self.tokens(now_ms)
        if tokens >= 0 or self.bound == UNLIMITED:
            return 0
        return round(-tokens / self.bound * 1000) if self.bound > 0 else self._window.samples * self._window.size_ms

    def _fill(self, now_ms: float) -> None:
        if self.bound != UNLIMITED:
            self._tokens = min(self._tokens + self.bound * (now_ms - self._at_ms) / 1000, self._burst)
        self._at_ms = now_ms
