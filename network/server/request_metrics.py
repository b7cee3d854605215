"""Times, sizes, errors and rates of requests, by API (`kafka.network:type=RequestMetrics`).

A finished request costs the processor one append; the histograms are fed in batches. Times are whole milliseconds, so
most values of a batch are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from network.protocol.api import API
from network.protocol.deprecated_versions import LAST_DEPRECATED
from network.protocol.errors import ErrorCode
from network.server.deprecated_requests import DeprecatedRequests

if TYPE_CHECKING:
    from network.server.request import Request
    from timer.metrics import Histogram, Meter, Metrics

RequestLog = Callable[[], "Callable[[Request, int], None] | None"]
"""Who is to be told of finished requests, with the time at which the answer was out; asked at every flush."""

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
_WITH_RECORDS = frozenset({"Produce", "Fetch"})
_CONVERSION_HISTOGRAMS = ("MessageConversionsTimeMs", "TemporaryMemoryBytes")
_NO_CONVERSION = (0, 0)


def no_request_log() -> None:
    """Nobody wants to know of finished requests."""


class RequestMetrics:
    """Collects finished requests of one processor; used from that processor's thread only.

    At most `_PENDING_BOUND` requests wait to be counted; then `record` counts them itself.
    """

    def __init__(self, metrics: Metrics, request_log: RequestLog = no_request_log) -> None:
        self._metrics = metrics
        self._request_log = request_log
        self._log = request_log()
        self._pending: list[tuple[Any, ...]] = []
        self._histograms: dict[str, tuple[Histogram, ...]] = {}
        self._rates: dict[tuple[str, int], Meter] = {}
        self._of_records: dict[str, tuple[Histogram, ...]] = {}
        self._errors: dict[tuple[int, int], Meter] = {}
        self._deprecated = DeprecatedRequests(metrics, GROUP, TYPE)
        self.requests = 0
        """Requests counted since the start; like `request_bytes` up to date with the last flush."""
        self.request_bytes = 0

    def record(self, request: Request, done_ns: int) -> None:
        if self._log is not None:
            self._log(request, done_ns)
        header = request.header
        pending = self._pending
        pending.append(
            (
                request.metric_names,
                header.api_version,
                request.size,
                request.received_ns,
                request.dequeued_ns,
                request.local_done_ns,
                request.response_ready_ns,
                request.response_dequeued_ns,
                done_ns,
                request.throttle_time_ms,
                header.api_key,
                request.error_codes,
                request.conversion,
                request.connection,
            )
        )
        if len(pending) >= _PENDING_BOUND:
            self.flush()

    def flush(self) -> None:
        """Feed what has been recorded to the registry, and see whether the request log is on."""
        self._log = self._request_log()
        pending, self._pending = self._pending, []
        counts: Counter[tuple[Any, ...]] = Counter()
        short: dict[tuple[Any, ...], int] = {}
        for (
            names, version, size, received, dequeued, local, ready, taken, done, throttle, key, codes, conversion,
            connection
        ) in pending:  # fmt: skip
            if 0 <= taken - received < _MS and conversion is None and version > LAST_DEPRECATED.get(key, -1):
                # As most are: answered within a millisecond, so that what came before the sending took none.
                alike = names, version, key, codes, size, throttle, (done - taken) // _MS, (done - received) // _MS
                short[alike] = short.get(alike, 0) + 1
                continue
            # A handler that answered before it returned did all its work locally.
            local_end = local if received < local < ready else ready
            values = (
                names,
                version,
                key,
                codes,
                conversion and (round(conversion[0] / _MS), conversion[1]),
                (connection.software_name, connection.software_version)
                if version <= LAST_DEPRECATED.get(key, -1)
                else None,
                size,
                (dequeued - received) // _MS if dequeued > received else 0,
                (local_end - dequeued) // _MS if local_end > dequeued > 0 else 0,
                (ready - local_end) // _MS if ready > local_end > 0 else 0,
                throttle,
                (taken - ready) // _MS if taken > ready else 0,
                (done - taken) // _MS if done > taken > 0 else 0,
                (done - received) // _MS if done > received else 0,
            )
            counts[values] += 1
        for (names, version, key, codes, size, throttle, sending, total), count in short.items():
            counts[names, version, key, codes, None, None, size, 0, 0, 0, throttle, 0, sending, total] += count
        errors: Counter[tuple[int, int]] = Counter()
        for (names, version, key, codes, conversion, client, *values_of_one), count in counts.items():
            for code in codes:
                errors[key, code] += count
            self.requests += count
            self.request_bytes += values_of_one[0] * count
            for name in names:
                for histogram, value in zip(self._of(name), values_of_one, strict=True):
                    histogram.update(value, count)
                self._rate(name, version).mark(count)
                if client is not None:
                    self._deprecated.mark(name, version, client, count)
                if name in _WITH_RECORDS:
                    for histogram, value in zip(self._conversions(name), conversion or _NO_CONVERSION, strict=True):
                        histogram.update(value, count)
        for (key, code), count in errors.items():
            self._error(key, code).mark(count)

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

    def _conversions(self, name: str) -> tuple[Histogram, ...]:
        found = self._of_records.get(name)
        if found is None:
            make = self._metrics.histogram
            found = tuple(make(GROUP, TYPE, histogram, request=name) for histogram in _CONVERSION_HISTOGRAMS)
            self._of_records[name] = found
        return found

    def _error(self, key: int, code: int) -> Meter:
        found = self._errors.get((key, code))
        if found is None:
            error = ErrorCode.of(code).name
            found = self._metrics.meter(GROUP, TYPE, "ErrorsPerSec", request=API[key].name, error=error)
            self._errors[(key, code)] = found
        return found


def parts_ns(request: Request, done_ns: int) -> tuple[int, int, int, int, int, int]:
    """The parts of a request's time: in the queue, local, remote, throttled, in the queue of answers, being sent.

    The throttle's is the time that a quota has held the answer back, which the parts before it do not include.
    `RequestMetrics.flush` has the same rules, for many at a time and in whole milliseconds.
    """
    received, dequeued, ready = request.received_ns, request.dequeued_ns, request.response_ready_ns
    local, taken = request.local_done_ns, request.response_dequeued_ns
    # A handler that answered before it returned did all its work locally.
    local_end = local if received < local < ready else ready
    return (
        _between(received, dequeued),
        _between(dequeued, local_end),
        _between(local_end, ready),
        request.throttle_time_ms * _MS,
        _between(ready, taken),
        _between(taken, done_ns),
    )


def _between(start_ns: int, end_ns: int) -> int:
    return end_ns - start_ns if end_ns > start_ns > 0 else 0
