"""Every API by a caller who may do nothing, one thing, or everything: Odradek answers as Apache Kafka does.

All callers are ANONYMOUS; they differ by the address that they call from, and the ACLs name addresses. So all ACLs are
made once, and a permission is chosen by where a request is sent from.
"""

from __future__ import annotations

import pytest

from broker.requests.authorization import SUPPORTED_OPERATIONS
from network.protocol.api import API, ApiKey
from tests.support.acl_matrix import ASKS, RESOURCES, Ask, callers, versions_of
from tests.support.secured import World

# Not offered by Kafka in ZooKeeper mode: client telemetry, and what a controller of KRaft is sent.
NOT_OFFERED = {
    ApiKey.ENVELOPE,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.LIST_CLIENT_METRICS_RESOURCES,
}


def test_every_api_is_asked(secured: World) -> None:
    for kind, offered in secured.highest.items():
        assert {ask.api for ask in ASKS} >= offered.keys() - NOT_OFFERED, kind
    assert {int(ask.api) for ask in ASKS} | {int(key) for key in NOT_OFFERED} == API.keys()
    assert set(RESOURCES) <= SUPPORTED_OPERATIONS.keys()


@pytest.mark.parametrize("ask", ASKS, ids=[f"{number}-{API[ask.api].name}" for number, ask in enumerate(ASKS)])
def test_the_answers_are_those_of_kafka(secured: World, ask: Ask) -> None:
    highest = min(highest[ask.api] for highest in secured.highest.values())
    different = {}
    for version in versions_of(ask, highest):
        for caller, _ in callers():
            ours, theirs = (secured.answer(kind, caller, ask, version) for kind in ("odradek", "kafka"))
            if ours != theirs:
                different[version, caller] = (ours, theirs)
    assert not different


@pytest.mark.parametrize("key", [ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_ACLS, ApiKey.FETCH])
def test_permissions_make_a_difference(secured: World, key: ApiKey) -> None:
    """So that equal answers are not only equally refused."""
    for kind in secured.brokers:
        for ask in [ask for ask in ASKS if ask.api == key][:1]:
            version = versions_of(ask, secured.highest[kind][key])[-1]
            assert secured.answer(kind, "nothing", ask, version) != secured.answer(kind, "everything", ask, version)
