"""Latencies of a load, counted so that any number of them takes little room."""

from __future__ import annotations

from collections import Counter

_DIGITS = 1_000


class Latencies:
    """Microseconds, kept to three digits: at most some thousands of different values, whatever comes."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._total_us = 0
        self.count = 0
        self.max_us = 0

    def add(self, us: int, times: int = 1) -> None:
        """One latency, or one that `times` records have in common."""
        us = max(0, us)
        self.count += times
        self._total_us += us * times
        self.max_us = max(self.max_us, us)
        unit = 1
        while us >= _DIGITS * unit:
            unit *= 10
        self._counts[us // unit * unit] += times

    @property
    def mean_ms(self) -> float:
        """0 without any."""
        return self._total_us / self.count / 1000 if self.count else 0.0

    @property
    def max_ms(self) -> float:
        return self.max_us / 1000

    def percentile_ms(self, percent: float) -> float:
        """The latency that so many percent do not exceed; 0 without any."""
        wanted, seen = self.count * percent / 100, 0
        for us, times in sorted(self._counts.items()):
            seen += times
            if seen >= wanted:
                return us / 1000
        return 0.0

    def facts(self) -> dict[str, float]:
        """As the perf tools show them."""
        return {
            "avg": round(self.mean_ms, 3),
            "max": self.max_ms,
            "p50": self.percentile_ms(50),
            "p95": self.percentile_ms(95),
            "p99": self.percentile_ms(99),
            "p99.9": self.percentile_ms(99.9),
        }
