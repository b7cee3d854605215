"""What planning does while a cluster elects leaders and hears of new topics: made-up answers, a clock that passes."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from network.client.cluster_metadata import BrokerAddress, ClusterMetadata, PartitionMetadata, TopicMetadata
from network.client.connection import ConnectionFailed
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from spark_jobs import cluster as subject
from spark_jobs.options import LATEST
from tests.unit.spark_jobs.made_up import PassingClock, read_options
from timer.clock import ManualClock

A, B = ("t", 0), ("t", 1)


class Client:
    """Two brokers, a topic of two partitions; what fails is told beforehand."""

    def __init__(self) -> None:
        self.leaders = {0: 0, 1: 1}
        self.unheard = 0
        self.asked: list[tuple[int, list[int]]] = []
        self.failures: dict[int, list[ErrorCode | Exception]] = {0: [], 1: []}

    def close(self) -> None: ...

    def metadata(self, topics: Iterable[str] | None = None) -> ClusterMetadata:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.unheard else ErrorCode.NONE
        self.unheard = max(0, self.unheard - 1)
        partitions = {n: PartitionMetadata(n, at, 1, [0, 1], [0, 1], [], code) for n, at in self.leaders.items()}
        return ClusterMetadata(
            self.brokers(), 0, "c", {"t": TopicMetadata("t", bytes(16), False, code, {} if code else partitions)}
        )

    def topic(self, name: str, *, refresh: bool = False) -> TopicMetadata:
        found = self.metadata().topics[name]
        if found.error:
            raise ApiError(found.error, name)
        return found

    def brokers(self) -> dict[int, BrokerAddress]:
        return {n: BrokerAddress(n, "h", n) for n in (0, 1)}

    def call_broker(self, broker: int, request: Any, timeout_ms: int) -> Any:
        wanted = [each.partition_index for each in request.topics[0].partitions]
        self.asked.append((broker, wanted))
        failure = self.failures[broker].pop(0) if self.failures[broker] else ErrorCode.NONE
        if isinstance(failure, Exception):
            raise failure
        entries = [
            ListOffsetsPartitionResponse(partition_index=n, error_code=int(failure), timestamp=-1, offset=10 + n)
            for n in wanted
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=entries)])


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr(subject, "open_client", lambda options: made)
    return made


def metadata(clock: ManualClock, **options: Any) -> subject.ClusterMetadata:
    return subject.ClusterMetadata(read_options(**options), clock)


def test_a_topic_that_was_just_made_is_waited_for(client: Client) -> None:
    client.unheard = 20
    assert metadata(PassingClock()).partitions(read_options()) == [A, B]
    client.unheard = 10_000
    clock = PassingClock()
    with pytest.raises(subject.SubscriptionError, match="t: UNKNOWN_TOPIC"):
        metadata(clock).partitions(read_options())
    assert clock.monotonic_ms() == subject.TOPIC_PATIENCE_MS
    assert metadata(clock).partitions(read_options(), tolerate_missing=True) == []
    assert clock.monotonic_ms() == subject.TOPIC_PATIENCE_MS


def test_offsets_are_asked_for_again_only_where_a_leader_moved(client: Client) -> None:
    client.failures[1] = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ConnectionFailed("gone"), ErrorCode.LEADER_NOT_AVAILABLE]
    assert metadata(PassingClock()).offsets({A: LATEST, B: LATEST}) == {A: 10, B: 11}
    assert client.asked == [(0, [0]), (1, [1]), (1, [1]), (1, [1]), (1, [1])]


def test_a_partition_without_leader_is_waited_for_and_followed(client: Client) -> None:
    client.leaders[1] = -1
    clock = PassingClock()

    class Elected(PassingClock):
        def wait(self, condition: threading.Condition, timeout_ms: float | None) -> bool:
            if self.monotonic_ms() > 20_000:
                client.leaders[1] = 0
            return super().wait(condition, timeout_ms)

    assert metadata(Elected()).offsets({A: LATEST, B: LATEST}) == {A: 10, B: 11}
    client.leaders[1] = -1
    with pytest.raises(ApiError) as caught:
        metadata(clock).offsets({B: LATEST})
    assert caught.value.code is ErrorCode.LEADER_NOT_AVAILABLE
    assert clock.monotonic_ms() == subject.OFFSETS_TIMEOUT_MS


def test_an_error_that_stays_has_the_tries_of_the_option(client: Client) -> None:
    client.failures[0] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 10
    with pytest.raises(ApiError):
        metadata(PassingClock(), **{"fetchOffset.numRetries": "2"}).offsets({A: LATEST})
    assert len(client.asked) == 3
