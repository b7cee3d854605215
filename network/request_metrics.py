"""Times, sizes and rates of requests, by API (`kafka.network:type=RequestMetrics`).

A finished request costs the processor one append; the histograms are fed in batches. Times are whole milliseconds, so
most values of a batch are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from network.request import Request
    from timer.metrics import Histogram, Meter, Metrics

GROUP = "kafka.network"
TYPE = "RequestMetrics"
_MS = 1_000_000
_PENDING_BOUND = 1024
_HISTOGRAMS = (
    "RequestBytes",
    "RequestQueueTimeMs",
    "LocalTimeMs",
    "RemoteTimeMs",
    "ThrottleTimeMs",
    "ResponseQueueTimeMs",
    "ResponseSendTimeMs",
    "TotalTimeMs",
)


class RequestMetrics:
    """Collects finished requests of one processor; used from that processor's thread only.

    At most `_PENDING_BOUND` requests wait to be counted; then `record` counts them itself.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._pending: list[tuple[Any, ...]] = []
        self._histograms: dict[str, tuple[Histogram, ...]] = {}
        self._rates: dict[tuple[str, int], Meter] = {}

    def record(self, request: Request, done_ns: int) -> None:
        header = request.header
        pending = self._pending
        pending.append(
            (
                request.spec.name,
                header.api_version,
                request.size,
                request.received_ns,
                request.dequeued_ns,
                request.local_done_ns,
                request.response_ready_ns,
                request.response_dequeued_ns,
                done_ns,
                request.throttle_time_ms,
            )
        )
        if len(pending) >= _PENDING_BOUND:
            self.flush()

    def flush(self) -> None:
        """Feed what has been recorded to the registry."""
        pending, self._pending = self._pending, []
        for name, version, size, received, dequeued, local, ready, taken, done, throttle in pending:
            # A handler that answered before it returned did all its work locally.
            local_end = ready if not local or local > ready else local
            values = (
                size,
                _span(received, dequeued),
                _span(dequeued, local_end),
                _span(local_end, ready),
                throttle,
                _span(ready, taken),
                _span(taken, done),
                _span(received, done),
            )
            for histogram, value in zip(self._of(name), values, strict=True):
                histogram.update(value)
            self._rate(name, version).mark()

    def _of(self, name: str) -> tuple[Histogram, ...]:
        found = self._histograms.get(name)
        if found is None:
            make = self._metrics.histogram
            found = tuple(make(GROUP, TYPE, histogram, request=name) for histogram in _HISTOGRAMS)
            self._histograms[name] = found
        return found

    def _rate(self, name: str, version: int) -> Meter:
        found = self._rates.get((name, version))
        if found is None:
            found = self._metrics.meter(GROUP, TYPE, "RequestsPerSec", request=name, version=str(version))
            self._rates[(name, version)] = found
        return found


def _span(start_ns: int, end_ns: int) -> int:
    """Whole milliseconds between two stations; 0 where one was not reached or they are out of order."""
    return (end_ns - start_ns) // _MS if end_ns > start_ns > 0 else 0
