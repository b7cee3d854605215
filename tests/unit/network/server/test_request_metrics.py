"""What a flush feeds to the histograms, against the same figures taken request by request."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

from network.server.request_metrics import RequestMetrics, parts_ns

_MS = 1_000_000
_TIMES = ("RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs", "ThrottleTimeMs", "ResponseQueueTimeMs",
          "ResponseSendTimeMs")  # fmt: skip


class Recorder:
    """A registry whose histograms and meters only note what they are given."""

    def __init__(self) -> None:
        self.seen: Counter[tuple[str, float]] = Counter()
        self.marked: Counter[str] = Counter()

    def histogram(self, group: str, type_: str, name: str, **tags: str) -> Any:
        def update(value: float, count: int = 1) -> None:
            self.seen[name, value] += count

        return SimpleNamespace(update=update)

    def meter(self, group: str, type_: str, name: str, **tags: str) -> Any:
        def mark(count: int = 1) -> None:
            self.marked[f"{name} {tags.get('version', '')}{tags.get('error', '')}"] += count

        return SimpleNamespace(mark=mark)


def finished(choice: random.Random, number: int) -> tuple[Any, int]:
    """A request with times that a broker could have noted, and when its answer was out."""
    received = 1_000 * _MS + number

    def later(than: int) -> int:
        return than + choice.choice([0, 300, _MS // 2, choice.randrange(4 * _MS)])

    dequeued = later(received)
    local = later(dequeued) if choice.random() < 0.3 else 0  # it was answered later, by somebody else
    ready = later(max(dequeued, local))
    taken = later(ready) if choice.random() < 0.95 else 0  # it was dropped
    done = later(max(ready, taken))
    request = SimpleNamespace(
        header=SimpleNamespace(api_key=0, api_version=choice.choice([2, 7])),
        metric_names=("Produce",),
        size=choice.choice([100, 200]),
        received_ns=received,
        dequeued_ns=dequeued,
        local_done_ns=local,
        response_ready_ns=ready,
        response_dequeued_ns=taken,
        throttle_time_ms=choice.choice([0, 0, 7]),
        error_codes=choice.choice([(0,), (0, 3)]),
        conversion=choice.choice([None, None, (3 * _MS, 50)]),
        connection=SimpleNamespace(software_name="librdkafka", software_version="2.6"),
    )
    return request, done


def test_a_flush_counts_what_each_request_took() -> None:
    choice = random.Random(7)
    recorder: Any = Recorder()
    metrics = RequestMetrics(recorder)
    expected: Counter[tuple[str, float]] = Counter()
    marks: Counter[str] = Counter()
    requests = [finished(choice, number) for number in range(900)]
    for request, done in requests:
        metrics.record(request, done)
        for name, ns in zip(_TIMES, parts_ns(request, done), strict=True):
            expected[name, ns // _MS] += 1
        expected["TotalTimeMs", (done - request.received_ns) // _MS] += 1
        expected["RequestBytes", request.size] += 1
        time_ns, memory = request.conversion or (0, 0)
        expected["MessageConversionsTimeMs", round(time_ns / _MS)] += 1
        expected["TemporaryMemoryBytes", memory] += 1
        marks[f"RequestsPerSec {request.header.api_version}"] += 1
        for code in request.error_codes:
            marks[f"ErrorsPerSec {'NONE' if code == 0 else 'UNKNOWN_TOPIC_OR_PARTITION'}"] += 1
        if request.header.api_version == 2:
            marks["DeprecatedRequestsPerSec 2"] += 1
    metrics.flush()
    assert recorder.seen == expected
    assert recorder.marked == marks
    assert metrics.requests == 900
    assert metrics.request_bytes == sum(request.size for request, _ in requests)
