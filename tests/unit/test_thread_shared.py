"""What several threads share without a lock, or partly, under many threads at once.

The ordinary interpreter switches threads only between instructions, so here it does that every ten microseconds; on a
free-threaded one they really run at the same time. By itself, with the tests of timers and of readers beside a writer:

    PYTHON_GIL=0 python3.14t -m pytest tests/unit/test_thread_shared.py tests/unit/timer/test_threads.py \
        tests/unit/log/test_log_threads.py
"""

from __future__ import annotations

import itertools
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.cluster.metadata_cache import MetadataCache
from broker.fetching.fetch_session import FetchSessionCache
from broker.metrics import MetricsRegistry
from broker.replication.follower.fetch_state import InitialFetchState
from broker.replication.follower.fetcher import FailedPartitions, FollowerSide, ReplicaFetcher
from broker.replication.metrics import ReplicaMetrics
from log.config import LogConfig
from log.fetch_data import FetchIsolation
from log.files.file_range import OpenFileBound
from log.records.record import iter_records
from log.records.validation import check_for_follower
from log.topic_partition import TopicPartition
from network.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from network.server.request_channel import ChannelClosed, RequestChannel
from tests.unit.log.harness import Harness, append, contents
from tests.unit.timer.test_threads import in_threads
from timer.chance import SeededChance
from timer.clock import SystemClock
from timer.metrics import NULL_METRICS
from timer.news import News

THREADS = 6
CLOCK = SystemClock()


@pytest.fixture(autouse=True)
def _switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_request_channel() -> None:
    """Every request is taken once, the bound holds, and whoever waits for room gets it."""
    channel = RequestChannel(3, CLOCK)
    putters, each = 3, 2000
    taken: list[list[Any]] = [[] for _ in range(THREADS)]
    most = [0] * THREADS
    left = itertools.count(1)
    done = threading.Lock()

    def work(number: int) -> None:
        if number < putters:
            for item in range(each):
                assert channel.put((number, item))  # type: ignore[arg-type]
            with done:
                if next(left) == putters:
                    channel.close(THREADS - putters)
            return
        try:
            while True:
                most[number] = max(most[number], len(channel))
                taken[number].append(channel.take(None))
        except ChannelClosed:
            pass

    in_threads(THREADS, work)
    assert Counter(itertools.chain(*taken)) == Counter((n, item) for n in range(putters) for item in range(each))
    # The stop signs of the takers may stand there too.
    assert max(most) <= 3 + THREADS - putters
    for items in taken:
        for number in range(putters):
            in_order = [item for who, item in items if who == number]
            assert in_order == sorted(in_order)


def test_appends_reads_and_rolls(tmp_path: Path) -> None:
    """Offsets have no gap, and what a reader sees below the end is whole."""
    harness = Harness(tmp_path, LogConfig(segment_bytes=4000, index_interval_bytes=200, segment_index_bytes=2400))
    harness.env.bound = OpenFileBound(4)
    log = harness.open()
    writers, each = 3, 120
    writing = threading.Barrier(writers)
    over = threading.Event()

    def work(number: int) -> None:
        if number < writers:
            for item in range(each):
                append(log, b"%d-%d" % (number, item) * 5)
                log.update_high_watermark(log.log_end_offset)
                if item % 40 == 39:
                    log.roll()
            if writing.wait(60) == 0:
                over.set()
            return
        rng = random.Random(number)
        while not over.is_set():
            end = log.log_end_offset
            offset = rng.randint(0, max(0, end - 1))
            found = contents_at(offset)
            assert not end or found[0] == offset, (offset, end, found[:3])

    def contents_at(offset: int) -> list[int]:
        info = log.read(offset, 600, FetchIsolation.LOG_END, True)
        try:
            data = info.records.read()
        finally:
            info.records.release()
        return [r.offset for batch in check_for_follower(data).batches for r in iter_records(batch)]

    in_threads(THREADS, work)
    assert log.log_end_offset == writers * each
    found = contents(log)
    assert [offset for offset, _ in found] == list(range(writers * each))
    assert len({value for _, value in found}) == writers * each
    assert harness.failures == []
    log.close_handles()


def test_metrics() -> None:
    """Nothing that was noted is lost or counted twice, whoever flushes."""
    registry = MetricsRegistry()
    metrics = ReplicaMetrics(registry)
    each = 5000

    def work(number: int) -> None:
        histogram = registry.histogram("g", "t", "shared")
        for item in range(each):
            metrics.appended(f"topic-{item % 3}", 10, 2)
            metrics.sent("topic-0", 7)
            histogram.update(item)
            if item % 100 == number:
                metrics.flush()

    in_threads(THREADS, work)
    metrics.flush()
    total = THREADS * each
    assert metrics.all_topics.total_produce.count == total  # type: ignore[attr-defined]
    assert metrics.all_topics.bytes_in.count == 10 * total  # type: ignore[attr-defined]
    assert metrics.all_topics.messages_in.count == 2 * total  # type: ignore[attr-defined]
    assert metrics.topic("topic-0").bytes_out.count == 7 * total  # type: ignore[attr-defined]
    assert sum(metrics.topic(f"topic-{n}").total_produce.count for n in range(3)) == total  # type: ignore[attr-defined]
    assert registry.histogram("g", "t", "shared").count == total


def test_fetch_sessions() -> None:
    """Ids are not given twice, and the bound holds."""
    cache = FetchSessionCache(200, CLOCK, SeededChance(1), NULL_METRICS)
    ids: list[list[int]] = [[] for _ in range(THREADS)]

    def work(number: int) -> None:
        for item in range(1500):
            found = cache.maybe_create(False, {}, False)
            if found:
                ids[number].append(found)
                session = cache.get(found)
                assert session is None or session.id == found
                if session is not None and item % 2:
                    cache.touch(session)
            if item % 3 == 0 and ids[number]:
                cache.remove(ids[number][-1])

    in_threads(THREADS, work)
    given = list(itertools.chain(*ids))
    assert len(given) == len(set(given)) >= 200
    assert cache.num_sessions <= 200


def test_metadata_snapshots() -> None:
    """A reader's snapshot is of one moment: all partitions of an update, or none."""
    cache = MetadataCache(1)
    over = threading.Event()
    partitions = 8

    def work(number: int) -> None:
        if number == 0:
            for epoch in range(1, 1000):
                states = [
                    UpdateMetadataPartitionState(partition_index=i, leader=1, leader_epoch=epoch, replicas=[1], isr=[1])
                    for i in range(partitions)
                ]
                topic = UpdateMetadataTopicState(topic_name="t", topic_id=bytes(15) + b"\1", partition_states=states)
                cache.update(UpdateMetadataRequest(controller_id=1, topic_states=[topic]), 7)
            over.set()
            return
        while not over.is_set():
            snapshot = cache.snapshot
            found = snapshot.topics.get("t")
            if found is not None:
                assert len(found) == partitions
                assert len({state.leader_epoch for state in found.values()}) == 1
                assert snapshot.topic_names[snapshot.topic_id("t")] == "t"

    in_threads(THREADS, work)


def test_fetcher_state() -> None:
    """Partitions are added, removed and looked at while a round is under way."""
    asked: list[int] = []
    log: Any = SimpleNamespace(latest_epoch=3, log_start_offset=0, high_watermark=5, log_end_offset=5)
    here: Any = SimpleNamespace(get_log=lambda tp: log, get=lambda tp: None)

    def fetch(wanted: dict[TopicPartition, object], changed: object) -> dict[TopicPartition, object]:
        asked.append(len(wanted))
        return {}

    leader: Any = SimpleNamespace(
        fetch=fetch,
        epoch_end_offsets=lambda asked: {},
        close=lambda: None,
    )
    traffic: Any = SimpleNamespace(rests=lambda tp, state: False)
    version: Any = SimpleNamespace(truncates_on_fetch=True, uses_offset_for_leader_epoch=True)
    side = FollowerSide(here, traffic, version, lambda tp: None)
    fetcher = ReplicaFetcher("fetcher", leader, side, FailedPartitions(), CLOCK, 1000, 1 << 20)
    node: Any = SimpleNamespace(id=2)
    mine = {n: [TopicPartition(f"topic-{n}", i) for i in range(5)] for n in range(2, THREADS)}

    left = itertools.count(1)
    over = threading.Event()

    def change(number: int) -> None:
        for item in range(1000):
            fetcher.add({tp: InitialFetchState(bytes(16), node, item, 5) for tp in mine[number]})
            fetcher.update_topic_ids(dict.fromkeys(mine[number], bytes(16)))
            assert set(fetcher.remove(mine[number][item % 5 :])) == set(mine[number][item % 5 :])

    def work(number: int) -> None:
        if number in mine:
            try:
                change(number)
            finally:
                if next(left) == len(mine):
                    over.set()
        while not over.is_set():
            if number == 0:
                fetcher.step()
            else:
                assert fetcher.max_lag >= 0
                assert len(fetcher.partitions()) <= 5 * THREADS

    in_threads(THREADS, work)
    assert sum(asked) > 0
    assert fetcher.count == sum(999 % 5 for _ in mine)


def test_what_is_told_once() -> None:
    """Of a failure that many threads meet, one tells."""
    news = News(CLOCK)
    told = [0] * THREADS

    def work(number: int) -> None:
        for subject in range(4000):
            told[number] += news.is_new(subject % 50, "the disk is full")

    in_threads(THREADS, work)
    assert sum(told) == 50
