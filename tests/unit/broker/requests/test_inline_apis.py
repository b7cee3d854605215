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


def allows(request: object, config: LogConfig = PLAIN) -> bool:
    partitions = SimpleNamespace(log_of=lambda topic, number: SimpleNamespace(config=config))
    broker = SimpleNamespace(
        fetch_manager=SimpleNamespace(size_of=lambda number: SESSIONS.get(number, 0)),
        replica_manager=SimpleNamespace(partitions=partitions),
    )
    rule = inline_apis.inline_rule(cast(BrokerContext, broker))
    key = request.header.api_key  # type: ignore[attr-defined]
    predicate = rule.apis[key]
    assert predicate is not None, "any request of it is run on the loop"
    return predicate(cast(Request, request))


@pytest.mark.parametrize("key", [ApiKey.FETCH, ApiKey.METADATA, ApiKey.HEARTBEAT, ApiKey.API_VERSIONS, ApiKey.PRODUCE])
def test_a_large_request_is_not_even_decoded(key: ApiKey) -> None:
    limit = inline_apis.MAX_PRODUCE_BYTES if key is ApiKey.PRODUCE else inline_apis.MAX_BYTES
    assert not allows(Undecoded(key, limit + 1))


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
