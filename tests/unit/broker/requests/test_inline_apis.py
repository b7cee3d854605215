"""What a processor runs itself is short, whatever a client asks for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.requests import inline_apis
from broker.requests.context import BrokerContext
from log.config import LogConfig
from log.records.record import Record
from network.protocol.api import ApiKey
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from network.server.request import Request
from tests.support.batches import build_batch

SESSIONS = {1: inline_apis.MAX_SESSION_PARTITIONS, 2: inline_apis.MAX_SESSION_PARTITIONS + 1}


PLAIN = LogConfig()


class Undecoded:
    """A request that may not be looked into."""

    def __init__(self, api_key: int, size: int) -> None:
        self.header = SimpleNamespace(api_key=api_key, api_version=9)
        self.size = size

    @property
    def message(self) -> Any:
        raise AssertionError("decoded on the loop")


def allows(request: object, config: LogConfig | None = PLAIN, offsets_codec: int = 0) -> bool:
    log = None if config is None else SimpleNamespace(config=config)
    partitions = SimpleNamespace(log_of=lambda topic, number: log)
    broker = SimpleNamespace(
        config=SimpleNamespace(get_int={"offsets.topic.compression.codec": offsets_codec}.__getitem__),
        group_coordinator=SimpleNamespace(partition_for=lambda group: 7),
        fetch_manager=SimpleNamespace(size_of=lambda number: SESSIONS.get(number, 0)),
        replica_manager=SimpleNamespace(partitions=partitions),
    )
    rule = inline_apis.inline_rule(cast(BrokerContext, broker))
    key = request.header.api_key  # type: ignore[attr-defined]
    predicate = rule.apis[key]
    assert predicate is not None, "any request of it is run on the loop"
    return predicate(cast(Request, request))


@pytest.mark.parametrize(
    "key",
    [
        ApiKey.FETCH,
        ApiKey.METADATA,
        ApiKey.HEARTBEAT,
        ApiKey.API_VERSIONS,
        ApiKey.PRODUCE,
        ApiKey.OFFSET_COMMIT,
    ],
    ids=lambda key: key.name,
)
def test_a_large_request_is_not_even_decoded(key: ApiKey) -> None:
    limits = {ApiKey.PRODUCE: inline_apis.MAX_PRODUCE_BYTES, ApiKey.OFFSET_COMMIT: inline_apis.MAX_COMMIT_BYTES}
    limit = limits.get(key, inline_apis.MAX_BYTES)
    assert not allows(Undecoded(key, limit + 1))


@pytest.mark.parametrize(
    ("topics", "partitions", "allowed"),
    [(1, 1, True), (1, inline_apis.MAX_PRODUCE_PARTITIONS, False), (inline_apis.MAX_PRODUCE_PARTITIONS, 1, False)],
)
def test_a_produce_of_very_many_partitions_is_not_even_decoded(topics: int, partitions: int, allowed: bool) -> None:
    records = build_batch([Record(0, 1_000, b"k", bytes(inline_apis.OUTLINE_ABOVE))])
    each = [PartitionProduceData(index=number, records=records) for number in range(partitions)]
    message = ProduceRequest(
        acks=1,
        timeout_ms=1_000,
        topic_data=[TopicProduceData(name="t", partition_data=each) for _ in range(topics)],
    )
    encoded = memoryview(message.encode(9))
    decoded = []

    class Sent(Undecoded):
        body = encoded

        @property
        def message(self) -> Any:
            decoded.append(1)
            return ProduceRequest.decode(self.body, 9)

    size = min(len(Sent.body), inline_apis.MAX_PRODUCE_BYTES)
    assert allows(Sent(ApiKey.PRODUCE, size)) is allowed
    assert bool(decoded) is allowed


@pytest.mark.parametrize(("session", "allowed"), [(0, True), (-1, True), (1, True), (2, False), (3, True)])
def test_a_small_fetch_of_a_large_session_is_not_run_on_the_loop(session: int, allowed: bool) -> None:
    request = SimpleNamespace(
        header=SimpleNamespace(api_key=ApiKey.FETCH, api_version=17),
        size=60,
        message=SimpleNamespace(session_id=session),
    )
    assert allows(request) is allowed


@pytest.mark.parametrize(("version", "allowed"), [(0, False), (3, False), (4, True)])
def test_what_has_to_be_rewritten_for_an_old_client_is_not_read_on_the_loop(version: int, allowed: bool) -> None:
    request = SimpleNamespace(
        header=SimpleNamespace(api_key=ApiKey.FETCH, api_version=version),
        size=60,
        message=SimpleNamespace(session_id=0),
    )
    assert allows(request) is allowed


@pytest.mark.parametrize(
    ("configs", "allowed"),
    [
        ({}, True),
        ({"compression.type": "uncompressed"}, True),
        ({"message.timestamp.type": "LogAppendTime"}, True),
        ({"compression.type": "gzip"}, False),
        ({"cleanup.policy": "compact"}, False),
        ({"flush.messages": "1"}, False),
    ],
    ids=str,
)
def test_a_produce_that_the_topic_makes_long_is_not_run_on_the_loop(configs: dict[str, str], allowed: bool) -> None:
    records = memoryview(build_batch([Record(0, 1_000, b"k", b"v")]))
    topic = SimpleNamespace(name="t", partition_data=[SimpleNamespace(index=0, records=records)])
    request = SimpleNamespace(
        header=SimpleNamespace(api_key=ApiKey.PRODUCE, api_version=9),
        size=200,
        message=SimpleNamespace(topic_data=[topic]),
    )
    assert allows(request, LogConfig.from_mapping(configs)) is allowed


@pytest.mark.parametrize(
    ("version", "codec", "config", "allowed"),
    [
        (1, 0, PLAIN, True),
        (9, 0, LogConfig.from_mapping({"cleanup.policy": "compact"}), True),
        (0, 0, PLAIN, False),
        (9, 1, PLAIN, False),
        (9, 0, LogConfig.from_mapping({"compression.type": "zstd"}), False),
        (9, 0, LogConfig.from_mapping({"flush.messages": "1"}), False),
        (9, 0, None, False),
    ],
    ids=["kept by Kafka", "compacted", "ZooKeeper", "compressed", "compressed by topic", "flushed", "not here"],
)
def test_a_commit_that_may_wait_is_not_run_on_the_loop(
    version: int, codec: int, config: LogConfig | None, allowed: bool
) -> None:
    request = SimpleNamespace(
        header=SimpleNamespace(api_key=ApiKey.OFFSET_COMMIT, api_version=version),
        size=100,
        message=SimpleNamespace(group_id="g"),
    )
    assert allows(request, config, codec) is allowed
