"""Sessions of followers take the room of consumers' sessions, so who only says to be a follower gets none of these."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.fetch import handle
from broker.fetching.fetch_contexts import SessionErrorContext
from network.protocol.errors import ErrorCode
from network.protocol.header import RequestHeader
from network.protocol.messages.fetch import FetchRequest
from network.server.connection_info import ConnectionInfo


@pytest.mark.parametrize(
    ("replica_id", "may_act_as_broker", "privileged"), [(2, True, True), (2, False, False), (-1, True, False)]
)
def test_who_gets_a_session_of_followers(replica_id: int, may_act_as_broker: bool, privileged: bool) -> None:
    asked: list[Any] = []

    def context(version: int, session_id: int, epoch: int, privileged: bool, *_: Any) -> SessionErrorContext:
        asked.append(privileged)
        return SessionErrorContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)  # enough has been seen

    broker = SimpleNamespace(
        authorizer=SimpleNamespace(allows_everything=False, authorize=lambda *_, **__: may_act_as_broker),
        fetch_manager=SimpleNamespace(context=context),
        metadata_cache=SimpleNamespace(snapshot=SimpleNamespace(topic_names={})),
    )
    call: Any = SimpleNamespace(
        request=FetchRequest(replica_id=replica_id, topics=[], forgotten_topics_data=[]),
        broker=broker,
        header=RequestHeader(1, 12, 1),
        connection=ConnectionInfo("id", principal="User:mallory"),
        raw=SimpleNamespace(metric_names=()),
    )
    assert handle(call).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert asked == [privileged]
