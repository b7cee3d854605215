"""What a processor runs itself is short, whatever a client asks for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.requests import inline_apis
from broker.requests.context import BrokerContext
from network.protocol.api import ApiKey
from network.server.request import Request

SESSIONS = {1: inline_apis.MAX_SESSION_PARTITIONS, 2: inline_apis.MAX_SESSION_PARTITIONS + 1}


class Undecoded:
    """A request that may not be looked into."""

    def __init__(self, api_key: int, size: int) -> None:
        self.header = SimpleNamespace(api_key=api_key)
        self.size = size

    @property
    def message(self) -> Any:
        raise AssertionError("decoded on the loop")


def allows(request: object) -> bool:
    broker = SimpleNamespace(fetch_manager=SimpleNamespace(size_of=lambda number: SESSIONS.get(number, 0)))
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
        header=SimpleNamespace(api_key=ApiKey.FETCH), size=60, message=SimpleNamespace(session_id=session)
    )
    assert allows(request) is allowed
