from __future__ import annotations

from collections.abc import Sequence

from broker.fetching.fetch_contexts import Answer, FetchContext, FetchManager
from broker.fetching.fetch_session import EVICTION_MS, NUM_SHARDS, FetchSessionCache, PartitionKey
from broker.replication.results import FetchPartitionData
from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import PartitionData
from network.protocol.uuids import ZERO_UUID, new_uuid
from timer.chance import SeededChance, SystemChance
from timer.clock import ManualClock
from timer.metrics import NULL_METRICS

VERSION = 12


def key(partition: int, topic: str | None = "t", topic_id: bytes = ZERO_UUID) -> PartitionKey:
    return PartitionKey(topic, topic_id, partition)


def wanted(offset: int = 0) -> FetchPartitionData:
    return FetchPartitionData(ZERO_UUID, offset, 0, 1024, -1)


def answer(partition: int, *, high_watermark: int = 10, records: bytes = b"", error: int = 0) -> PartitionData:
    return PartitionData(
        partition_index=partition, error_code=error, high_watermark=high_watermark, log_start_offset=0, records=records
    )


class Sessions:
    def __init__(self, slots: int = 1000) -> None:
        self.clock = ManualClock()
        self.cache = FetchSessionCache(slots, self.clock, SeededChance(0), NULL_METRICS)
        self.manager = FetchManager(self.cache)
        self.names: dict[bytes, str] = {}

    def context(
        self,
        session_id: int,
        epoch: int,
        partitions: Sequence[PartitionKey] = (),
        forgotten: Sequence[PartitionKey] = (),
        *,
        version: int = VERSION,
        privileged: bool = False,
    ) -> FetchContext:
        asked = [(each, wanted()) for each in partitions]
        return self.manager.context(version, session_id, epoch, privileged, asked, forgotten, self.names.get)

    def open(self, *partitions: PartitionKey, privileged: bool = False, version: int = VERSION) -> int:
        context = self.context(0, 0, partitions, privileged=privileged, version=version)
        error, session_id, _ = context.finish([(each, answer(each.partition)) for each in partitions])
        assert error is ErrorCode.NONE
        return session_id


def partitions(sent: Sequence[Answer]) -> list[int]:
    return [data.partition_index for _, data in sent]


def test_without_a_session_everything_is_sent() -> None:
    sessions = Sessions()
    context = sessions.context(0, -1, [key(0), key(1)])
    error, session_id, sent = context.finish([(key(0), answer(0)), (key(1), answer(1))])
    assert (error, session_id, partitions(sent)) == (ErrorCode.NONE, 0, [0, 1])


def test_only_what_changed_is_sent_and_data_goes_last() -> None:
    sessions = Sessions()
    session_id = sessions.open(key(0), key(1), key(2))
    assert session_id > 0
    context = sessions.context(session_id, 1)
    assert [each.partition for each, _ in context.partitions()] == [0, 1, 2]
    answers = [(key(0), answer(0, records=b"x")), (key(1), answer(1)), (key(2), answer(2, high_watermark=11))]
    error, same_id, sent = context.finish(answers)
    assert (error, same_id, partitions(sent)) == (ErrorCode.NONE, session_id, [0, 2])
    context = sessions.context(session_id, 2)
    assert [each.partition for each, _ in context.partitions()] == [1, 2, 0]


def test_error_makes_the_next_good_answer_complete() -> None:
    sessions = Sessions()
    session_id = sessions.open(key(0))
    _, _, sent = sessions.context(session_id, 1).finish([(key(0), answer(0, error=3))])
    assert partitions(sent) == [0]
    _, _, sent = sessions.context(session_id, 2).finish([(key(0), answer(0))])
    assert partitions(sent) == [0]
    _, _, sent = sessions.context(session_id, 3).finish([(key(0), answer(0))])
    assert partitions(sent) == []


def test_session_errors() -> None:
    sessions = Sessions()
    session_id = sessions.open(key(0))
    assert sessions.context(session_id + 1, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.context(session_id, 7).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.context(session_id, 1, version=13).error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert sessions.context(session_id, 1).error is ErrorCode.NONE, "the session survives wrong requests"


def test_two_requests_race_on_one_session() -> None:
    sessions = Sessions()
    session_id = sessions.open(key(0))
    slow = sessions.context(session_id, 1)
    sessions.context(session_id, 2)
    error, _, sent = slow.finish([(key(0), answer(0, records=b"x"))])
    assert (error, list(sent)) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])


def test_forgetting_the_last_partition_closes_the_session() -> None:
    sessions = Sessions()
    session_id = sessions.open(key(0))
    context = sessions.context(session_id, 1, [key(1)], [key(0)])
    assert [each.partition for each, _ in context.partitions()] == [1]
    context = sessions.context(session_id, 2, (), [key(1)])
    assert context.finish([]) == (ErrorCode.NONE, 0, [])
    assert sessions.cache.num_sessions == 0


def test_unknown_topic_id_is_resolved_later() -> None:
    sessions = Sessions()
    topic_id = new_uuid(SystemChance())
    session_id = sessions.open(key(0, None, topic_id), version=13)
    sessions.names[topic_id] = "now"
    ((found, _),) = sessions.context(session_id, 1, version=13).partitions()
    assert found.topic == "now"


def test_full_cache_prefers_followers_and_evicts_the_idle() -> None:
    sessions = Sessions(slots=NUM_SHARDS)
    consumers = [sessions.open(key(0)) for _ in range(NUM_SHARDS)]
    assert all(consumers)
    assert sessions.open(key(0)) == 0, "young sessions of consumers are not evicted by a consumer"
    followers = [sessions.open(key(0), privileged=True) for _ in range(NUM_SHARDS)]
    assert all(followers)
    assert sessions.cache.num_sessions == NUM_SHARDS
    assert sessions.open(key(0), privileged=True) == 0
    sessions.clock.advance(EVICTION_MS + 1)
    assert sessions.open(key(0)) != 0, "an idle session gives way to anybody"
    assert sessions.cache.evictions == NUM_SHARDS + 1
