"""ACLs in a ZooKeeper that two brokers change, one of which is late, or loses its session half way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.requests.authorization import Operation, ResourceType
from broker.security.acl_store import AclStore, path_of
from broker.security.acls import ALLOW, DENY, Entry, Pattern, decode_entries
from controller.zk import paths
from controller.zk.client import ZkClient
from controller.zk.kazoo_session import KazooSession
from controller.zk.session import SessionExpiredError
from timer.clock import SystemClock

TOPIC = Pattern(ResourceType.TOPIC, "t")
ALLOWED = frozenset({Entry("User:alice", "*", Operation.READ, ALLOW)})
DENIED = ALLOWED | {Entry("User:alice", "10.0.0.1", Operation.READ, DENY)}


@pytest.fixture
def make_store(chroot: str) -> Iterator[Callable[[], tuple[AclStore, ZkClient]]]:
    """Stores with a session each. They follow nothing: what others write they hear of only when they ask."""
    clients: list[ZkClient] = []

    def make() -> tuple[AclStore, ZkClient]:
        session = KazooSession(chroot, session_timeout_ms=6000)
        session.start()
        clients.append(ZkClient(session))
        return AclStore(clients[-1], SystemClock(), lambda pattern, entries: None), clients[-1]

    first = make()
    first[1].create_recursive(path_of(TOPIC).rpartition("/")[0], None, fail_if_exists=False)
    first[1].create_recursive(paths.ACL_CHANGES, None, fail_if_exists=False)
    waiting = [first]
    yield lambda: waiting.pop() if waiting else make()
    for client in clients:
        client.close()


def stored(zk: ZkClient) -> frozenset[Entry]:
    found = zk.read(path_of(TOPIC))
    return frozenset() if found is None else decode_entries(found[0])


def to(wanted: frozenset[Entry]) -> Callable[[frozenset[Entry]], frozenset[Entry]]:
    return lambda entries: wanted


def test_a_broker_that_is_late_does_not_take_for_done_what_was_undone(make_store: Any) -> None:
    (late, zk), (other, _) = make_store(), make_store()
    late.change(TOPIC, to(DENIED))
    other.change(TOPIC, to(ALLOWED))
    assert stored(zk) == ALLOWED
    late.change(TOPIC, to(DENIED))
    assert stored(zk) == DENIED
    other.change(TOPIC, to(frozenset()))
    late.change(TOPIC, to(frozenset()))
    assert stored(zk) == frozenset()


def test_what_was_written_before_the_session_ended_is_told_when_it_is_asked_for_again(
    make_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, zk = make_store()
    create = zk.create_sequential

    def lost(path: str, data: bytes) -> str:
        raise SessionExpiredError("planted")

    monkeypatch.setattr(zk, "create_sequential", lost)
    with pytest.raises(SessionExpiredError):
        store.change(TOPIC, to(DENIED))
    assert stored(zk) == DENIED
    monkeypatch.setattr(zk, "create_sequential", create)
    assert zk.children(paths.ACL_CHANGES) == []
    store.change(TOPIC, to(DENIED))
    assert len(zk.children(paths.ACL_CHANGES)) == 1
    store.change(TOPIC, to(DENIED))
    assert len(zk.children(paths.ACL_CHANGES)) == 1, "nothing new to tell"
