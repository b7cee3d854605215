"""Produce, Fetch and ListOffsets on the wire: offsets, limits, waiting, sessions, sequences."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from log.records.compression import Codec
from log.records.old_formats import iter_entries
from log.records.record import Record, iter_records
from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData
from network.protocol.messages.init_producer_id import InitProducerIdRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support import wire
from tests.support.cluster import Broker, Cluster

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3


@pytest.fixture
def broker(cluster: Cluster) -> Broker:
    return cluster.brokers[0]


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return wire.create_topic(cluster)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("acks", [1, -1])
def test_what_is_produced_is_fetched(broker: Broker, topic: str, codec: Codec, acks: int) -> None:
    values = [b"", b"x", None, b"long " * 1000]
    keys = [b"k", None, b"", b"key " * 100]
    first = wire.produce(broker, topic, wire.batch(values, keys=keys, codec=codec), acks=acks)
    second = wire.produce(broker, topic, wire.batch([b"next"], codec=codec), acks=acks)
    assert (first.error_code, first.base_offset, first.log_append_time_ms, first.log_start_offset) == (0, 0, -1, 0)
    assert (second.error_code, second.base_offset) == (0, 4)
    answer = wire.fetch(broker, topic, 0)
    assert (answer.error_code, answer.high_watermark, answer.log_start_offset) == (0, 5, 0)
    assert answer.last_stable_offset == 5
    found = wire.records_of(answer)
    assert [(r.offset, r.key, r.value) for r in found] == [
        (offset, key, value) for offset, (key, value) in enumerate(zip([*keys, None], [*values, b"next"], strict=True))
    ]


@pytest.mark.parametrize("version", range(3, 12))
def test_every_version_of_produce_with_batches(broker: Broker, topic: str, version: int) -> None:
    answer = wire.produce(broker, topic, wire.batch([b"v"]), version=version)
    assert (answer.error_code, answer.base_offset) == (0, 0)


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_of_fetch_by_name(broker: Broker, topic: str, version: int) -> None:
    wire.produce(broker, topic, wire.batch([b"a", b"b"]))
    assert [r.value for r in wire.records_of(wire.fetch(broker, topic, 0, version=version))] == [b"a", b"b"]


@pytest.mark.parametrize("version", range(13, 18))
def test_every_version_of_fetch_by_id(broker: Broker, topic: str, version: int) -> None:
    wire.produce(broker, topic, wire.batch([b"a", b"b"]))
    (found,) = wire.call(broker, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics
    request = wire.fetch_request(topic, 0)
    request.topics[0].topic_id = found.topic_id
    answer = wire.call(broker, request, version).responses[0]
    assert answer.topic_id == found.topic_id
    assert [r.value for r in wire.records_of(answer.partitions[0])] == [b"a", b"b"]
    request.topics[0].topic_id = bytes(range(16))
    assert wire.call(broker, request, version).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_acks_0_is_never_answered(broker: Broker, topic: str) -> None:
    with wire.connected(broker) as connection:
        for _ in range(3):
            connection.send_request(wire.produce_request(topic, wire.batch([b"v"]), acks=0), 9, answered=False)
        answer = connection.call(wire.produce_request(topic, wire.batch([b"last"])), 9)
    assert answer.responses[0].partition_responses[0].base_offset == 3


def test_unknown_partitions_do_not_spoil_the_others(broker: Broker, topic: str) -> None:
    data = [PartitionProduceData(index=index, records=wire.batch([b"v"])) for index in (0, 1)]
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    answer = wire.call(broker, request, 9).responses[0]
    assert {p.index: ErrorCode.of(p.error_code) for p in answer.partition_responses} == {
        0: ErrorCode.NONE,
        1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_log_append_time(cluster: Cluster, broker: Broker) -> None:
    topic = wire.create_topic(cluster, configs={"message.timestamp.type": "LogAppendTime"})
    before = wire.now_ms()
    answer = wire.produce(broker, topic, wire.batch([b"v"], timestamps=[1000]))
    assert before - 1000 <= answer.log_append_time_ms <= wire.now_ms() + 1000
    (record,) = wire.records_of(wire.fetch(broker, topic, 0))
    assert record.timestamp == answer.log_append_time_ms


def test_timestamps_too_far_in_the_future(cluster: Cluster, broker: Broker) -> None:
    topic = wire.create_topic(cluster, configs={"message.timestamp.after.max.ms": "1000"})
    late = wire.now_ms() + 3_600_000
    answer = wire.produce(broker, topic, wire.batch([b"a", b"b"], timestamps=[wire.now_ms(), late]))
    assert ErrorCode.of(answer.error_code) is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [1]


def test_a_compacted_topic_wants_keys(cluster: Cluster, broker: Broker) -> None:
    topic = wire.create_topic(cluster, configs={"cleanup.policy": "compact"})
    answer = wire.produce(broker, topic, wire.batch([b"a", b"b"], keys=[b"k", None]))
    assert ErrorCode.of(answer.error_code) is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert wire.produce(broker, topic, wire.batch([b"a"], keys=[b"k"])).error_code == 0


@pytest.mark.parametrize(
    ("stored", "sent"), [("zstd", Codec.NONE), ("gzip", Codec.LZ4), ("uncompressed", Codec.SNAPPY)]
)
def test_the_topic_codec_wins(cluster: Cluster, broker: Broker, stored: str, sent: Codec) -> None:
    topic = wire.create_topic(cluster, configs={"compression.type": stored})
    assert wire.produce(broker, topic, wire.batch([b"a" * 1000, b"b" * 1000], codec=sent)).error_code == 0
    answer = wire.fetch(broker, topic, 0)
    assert [r.value for r in wire.records_of(answer)] == [b"a" * 1000, b"b" * 1000]
    codec = bytes(answer.records or b"")[22] & 7  # type: ignore[arg-type]
    assert codec == {"zstd": Codec.ZSTD, "gzip": Codec.GZIP, "uncompressed": Codec.NONE}[stored]


# Fetch


def test_offsets_outside_the_log(broker: Broker, topic: str) -> None:
    wire.produce(broker, topic, wire.batch([b"v"]))
    for offset in (2, 10_000, -1):
        answer = wire.fetch(broker, topic, offset)
        assert ErrorCode.of(answer.error_code) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert (answer.high_watermark, answer.log_start_offset) == (-1, -1)
    assert wire.records_of(wire.fetch(broker, topic, 1)) == []


def test_an_unknown_partition(broker: Broker, topic: str) -> None:
    for name, partition in ((topic, 7), (wire.fresh_name(), 0)):
        answer = wire.fetch(broker, name, 0, partition=partition)
        assert ErrorCode.of(answer.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_fetch_waits_until_data_comes(broker: Broker, topic: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        started = time.monotonic()
        waiting = pool.submit(wire.fetch, broker, topic, 0, max_wait_ms=25_000)
        time.sleep(0.5)
        assert not waiting.done()
        wire.produce(broker, topic, wire.batch([b"at last"]))
        assert [r.value for r in wire.records_of(waiting.result(20))] == [b"at last"]
        assert time.monotonic() - started < 20


def test_a_fetch_waits_for_min_bytes(broker: Broker, topic: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wire.fetch, broker, topic, 0, max_wait_ms=25_000, min_bytes=3000)
        for _ in range(2):
            wire.produce(broker, topic, wire.batch([b"x" * 1000]))
        time.sleep(0.3)
        assert not waiting.done()
        wire.produce(broker, topic, wire.batch([b"x" * 1000]))
        assert len(wire.records_of(waiting.result(20))) == 3


def test_max_wait_ends_the_wait(broker: Broker, topic: str) -> None:
    started = time.monotonic()
    assert wire.records_of(wire.fetch(broker, topic, 0, max_wait_ms=700, min_bytes=1)) == []
    assert 0.65 <= time.monotonic() - started < 15


def test_a_closed_connection_ends_a_wait_quietly(broker: Broker, topic: str) -> None:
    for _ in range(20):
        with wire.connected(broker) as connection:
            connection.send_request(wire.fetch_request(topic, 0, max_wait_ms=20_000), wire.FETCH_VERSION)
    assert wire.produce(broker, topic, wire.batch([b"v"])).error_code == 0


def test_the_first_batch_comes_whole_whatever_the_limits(broker: Broker, topic: str) -> None:
    for _ in range(3):
        wire.produce(broker, topic, wire.batch([b"x" * 5000]))
    answer = wire.fetch(broker, topic, 0, max_bytes=10, partition_max_bytes=10)
    assert len(wire.records_of(answer)) == 1
    assert len(answer.records or b"") < 2 * 5000  # type: ignore[arg-type]
    answer = wire.fetch(broker, topic, 0, partition_max_bytes=11_000)
    assert len(answer.records or b"") <= 11_000  # type: ignore[arg-type]
    assert len(wire.records_of(answer)) == 2


def test_max_bytes_is_shared_in_request_order(cluster: Cluster, broker: Broker) -> None:
    topic = wire.create_topic(cluster, partitions=3)
    for partition in range(3):
        wire.produce(broker, topic, wire.batch([b"x" * 5000]), partition=partition)
    order = [2, 0, 1]
    wanted = [FetchPartition(partition=p, fetch_offset=0, partition_max_bytes=1_000_000) for p in order]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=6000, topics=[FetchTopic(topic=topic, partitions=wanted)]
    )
    answer = wire.call(broker, request, wire.FETCH_VERSION).responses[0].partitions
    sizes = {p.partition_index: len(wire.records_of(p)) for p in answer}
    assert sizes == {2: 1, 0: 0, 1: 0}


def test_a_fetch_in_the_middle_of_a_batch_gets_the_whole_batch(broker: Broker, topic: str) -> None:
    wire.produce(broker, topic, wire.batch([b"0", b"1", b"2"]))
    assert [r.offset for r in wire.records_of(wire.fetch(broker, topic, 2))] == [0, 1, 2]


def test_leader_epochs_are_checked(broker: Broker, topic: str) -> None:
    request = wire.fetch_request(topic, 0)
    request.topics[0].partitions[0].current_leader_epoch = 0
    assert wire.call(broker, request, 12).responses[0].partitions[0].error_code == 0
    request.topics[0].partitions[0].current_leader_epoch = 5
    answer = wire.call(broker, request, 12).responses[0].partitions[0]
    assert ErrorCode.of(answer.error_code) is ErrorCode.UNKNOWN_LEADER_EPOCH


# Sessions


def test_a_session_reports_only_what_changed(cluster: Cluster, broker: Broker) -> None:
    topic = wire.create_topic(cluster, partitions=2)
    wanted = [FetchPartition(partition=p, fetch_offset=0, partition_max_bytes=1_000_000) for p in (0, 1)]
    full = FetchRequest(
        max_wait_ms=0, min_bytes=1, session_epoch=0, topics=[FetchTopic(topic=topic, partitions=wanted)]
    )
    opened = wire.call(broker, full, 12)
    assert opened.error_code == 0
    assert opened.session_id > 0
    assert len(opened.responses[0].partitions) == 2

    def more(epoch: int, **options: object) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_id=opened.session_id,
            session_epoch=epoch,
            **options,  # type: ignore[arg-type]
        )

    quiet = wire.call(broker, more(1), 12)
    assert (quiet.error_code, quiet.session_id, quiet.responses) == (0, opened.session_id, [])
    wire.produce(broker, topic, wire.batch([b"v"]), partition=1)
    news = wire.call(broker, more(2), 12)
    assert [p.partition_index for p in news.responses[0].partitions] == [1]
    wrong = wire.call(broker, more(9), 12)
    assert ErrorCode.of(wrong.error_code) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    forget = wire.call(broker, more(3, forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=[0, 1])]), 12)
    assert (forget.error_code, forget.session_id) == (0, 0)
    gone = wire.call(broker, more(4), 12)
    assert ErrorCode.of(gone.error_code) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


# Fetch of consumers of old


def old_records(answer: PartitionData, version: int) -> list[Record]:
    """The records of an answer, all of which are of the format that the version knows."""
    entries = list(iter_entries(bytes(answer.records or b"")))  # type: ignore[arg-type]
    assert {entry.magic for entry in entries} == {0 if version < 2 else 1}
    assert all(entry.is_valid() for entry in entries)
    return [record for entry in entries for record in iter_records(entry)]


@pytest.mark.parametrize("version", range(4))
def test_old_versions_of_fetch_get_records_as_they_know_them(broker: Broker, topic: str, version: int) -> None:
    now = wire.now_ms()
    wire.produce(broker, topic, wire.batch([b"a", None], keys=[b"k", b""], timestamps=[now - 1, now]))
    wire.produce(broker, topic, wire.batch([b"%d" % i * 500 for i in range(20)], codec=Codec.LZ4))
    answer = wire.fetch(broker, topic, 0, version=version)
    assert answer.high_watermark == 22
    found = old_records(answer, version)
    assert found[0].offset == 0
    if len(found) < 22:  # converted it is more than was read, and no more is answered
        found += old_records(wire.fetch(broker, topic, found[-1].offset + 1, version=version), version)
    assert [record.offset for record in found] == list(range(22))
    assert [(r.key, r.value, r.timestamp) for r in found[:2]] == [
        (b"k", b"a", now - 1 if version > 1 else -1),
        (b"", None, now if version > 1 else -1),
    ]
    assert found[-1].value == b"19" * 500


def test_an_old_fetch_in_the_middle_of_a_batch(broker: Broker, topic: str) -> None:
    wire.produce(broker, topic, wire.batch([b"a", b"b", b"c"]))
    wire.produce(broker, topic, wire.batch([b"d", b"e"], codec=Codec.GZIP))
    assert [r.offset for r in old_records(wire.fetch(broker, topic, 1, version=2), 2)] == [1, 2, 3, 4]
    assert [r.offset for r in old_records(wire.fetch(broker, topic, 4, version=2), 2)] == [3, 4]


def test_an_old_fetch_ends_before_a_codec_that_it_does_not_know(broker: Broker, topic: str) -> None:
    wire.produce(broker, topic, wire.batch([b"a" * 3000, b"b" * 3000]))
    wire.produce(broker, topic, wire.batch([b"c"], codec=Codec.ZSTD))
    assert [r.offset for r in old_records(wire.fetch(broker, topic, 0, version=3), 3)] == [0, 1]
    answer = wire.fetch(broker, topic, 2, version=3)
    assert ErrorCode.of(answer.error_code) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (answer.high_watermark, bytes(answer.records or b"")) == (-1, b"")  # type: ignore[arg-type]


def test_an_old_fetch_waits_until_data_comes(broker: Broker, topic: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wire.fetch, broker, topic, 0, max_wait_ms=25_000, version=2)
        time.sleep(0.3)
        wire.produce(broker, topic, wire.batch([b"x" * 3000, b"y" * 3000]))
        assert [r.value for r in old_records(waiting.result(20), 2)] == [b"x" * 3000, b"y" * 3000]


# ListOffsets


@pytest.mark.parametrize("version", range(1, 10))
def test_earliest_and_latest(broker: Broker, topic: str, version: int) -> None:
    assert wire.list_offset(broker, topic, LATEST, version=version).offset == 0
    wire.produce(broker, topic, wire.batch([b"a", b"b"]))
    earliest = wire.list_offset(broker, topic, EARLIEST, version=version)
    latest = wire.list_offset(broker, topic, LATEST, version=version)
    assert (earliest.offset, earliest.timestamp, latest.offset, latest.timestamp) == (0, -1, 2, -1)


def test_offsets_by_time(broker: Broker, topic: str) -> None:
    base = wire.now_ms() - 100_000
    for start in (0, 10, 20):
        stamps = [base + (start + n) * 1000 for n in range(10)]
        wire.produce(broker, topic, wire.batch([b"v"] * 10, timestamps=stamps))
    for wanted in (0, 7, 13, 29):
        found = wire.list_offset(broker, topic, base + wanted * 1000)
        assert (found.offset, found.timestamp) == (wanted, base + wanted * 1000)
        between = wire.list_offset(broker, topic, base + wanted * 1000 - 500)
        assert between.offset == wanted
    assert wire.list_offset(broker, topic, base - 5).offset == 0
    beyond = wire.list_offset(broker, topic, base + 1_000_000)
    assert (beyond.error_code, beyond.offset, beyond.timestamp) == (0, -1, -1)
    largest = wire.list_offset(broker, topic, MAX_TIMESTAMP)
    assert (largest.offset, largest.timestamp) == (29, base + 29_000)


def test_a_special_timestamp_of_the_future(broker: Broker, topic: str) -> None:
    answer = wire.list_offset(broker, topic, -42)
    assert ErrorCode.of(answer.error_code) is ErrorCode.UNSUPPORTED_VERSION
    answer = wire.list_offset(broker, topic, LATEST, partition=3)
    assert ErrorCode.of(answer.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Idempotent producers


def producer_id(broker: Broker) -> tuple[int, int]:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answer = wire.call(broker, request, 4)
    # The broker may still be asking the controller for its first block of ids.
    while ErrorCode.of(answer.error_code) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        wire.pause()
        answer = wire.call(broker, request, 4)
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


def test_producer_ids_are_given_once(broker: Broker) -> None:
    ids = [producer_id(broker) for _ in range(20)]
    assert len({number for number, _ in ids}) == 20
    assert {epoch for _, epoch in ids} == {0}


def test_sequences_are_checked_and_duplicates_answered(broker: Broker, topic: str) -> None:
    number, epoch = producer_id(broker)

    def send(sequence: int, count: int = 2, producer_epoch: int = epoch) -> tuple[ErrorCode, int]:
        data = wire.batch([b"v"] * count, producer_id=number, producer_epoch=producer_epoch, base_sequence=sequence)
        answer = wire.produce(broker, topic, data)
        return ErrorCode.of(answer.error_code), answer.base_offset

    assert [send(sequence) for sequence in (0, 2, 4)] == [(ErrorCode.NONE, offset) for offset in (0, 2, 4)]
    # Sent again, as after a lost answer: the same offset, nothing appended.
    assert send(2) == (ErrorCode.NONE, 2)
    assert send(8) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(6) == (ErrorCode.NONE, 6)
    # A higher epoch starts again at sequence 0, and the old one is fenced.
    assert send(3, producer_epoch=epoch + 1) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(0, producer_epoch=epoch + 1) == (ErrorCode.NONE, 8)
    assert send(8)[0] is ErrorCode.INVALID_PRODUCER_EPOCH
    assert wire.list_offset(broker, topic, LATEST).offset == 10


def test_only_the_last_five_batches_are_known_as_duplicates(broker: Broker, topic: str) -> None:
    number, epoch = producer_id(broker)

    def send(sequence: int) -> tuple[ErrorCode, int]:
        data = wire.batch([b"v"], producer_id=number, producer_epoch=epoch, base_sequence=sequence)
        answer = wire.produce(broker, topic, data)
        return ErrorCode.of(answer.error_code), answer.base_offset

    for sequence in range(8):
        assert send(sequence) == (ErrorCode.NONE, sequence)
    for sequence in range(3, 8):
        assert send(sequence) == (ErrorCode.NONE, sequence)
    assert send(2)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_starts_where_it_wants_in_an_empty_partition(broker: Broker, topic: str) -> None:
    number, epoch = producer_id(broker)
    data = wire.batch([b"v"], producer_id=number, producer_epoch=epoch, base_sequence=11)
    assert wire.produce(broker, topic, data).error_code == 0


# Many at once


def test_many_connections_each_keep_their_order(cluster: Cluster, broker: Broker) -> None:
    topic = wire.create_topic(cluster, partitions=4)
    errors: list[BaseException] = []

    def work(partition: int) -> None:
        try:
            with wire.connected(broker) as connection:
                for number in range(200):
                    request = wire.produce_request(
                        topic, wire.batch([str(number).encode()]), partition=partition, acks=1
                    )
                    answer = connection.call(request, 9).responses[0].partition_responses[0]
                    assert (answer.error_code, answer.base_offset) == (0, number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(partition,)) for partition in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for partition in range(4):
        found = wire.records_of(wire.fetch(broker, topic, 0, partition=partition))
        assert [record.value for record in found] == [str(number).encode() for number in range(200)]
