"""The feature listener on a real ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from broker.cluster.feature_listener import FeatureListener, IncompatibleFeaturesError
from broker.requests.context import Features
from controller.zk import paths
from controller.zk.client import ZkClient
from controller.zk.kazoo_session import KazooSession
from controller.zk.ops import Delete
from controller.zk.payloads import FeatureZnode
from timer.clock import SystemClock

WAIT_MS = 60_000
NONE = FeatureZnode(2, True, {})
FINALIZED = FeatureZnode(2, True, {"later": 3})


class Watched:
    """A listener and what it said."""

    def __init__(self, chroot: str) -> None:
        session = KazooSession(chroot, session_timeout_ms=6000)
        session.start()
        self.zk = ZkClient(session)
        self.zk.create_startup_paths()
        self.published: list[Features] = []
        self.halted = threading.Event()
        self.listener = FeatureListener(self.zk, self.published.append, self.halted.set, SystemClock())


@pytest.fixture
def watched(chroot: str) -> Iterator[Watched]:
    made = Watched(chroot)
    yield made
    made.listener.close()
    made.zk.close()


def test_it_follows_a_znode_that_comes_after_it(watched: Watched) -> None:
    watched.listener.start()
    assert watched.published == [Features()]
    watched.zk.write_feature(NONE)
    watched.listener.await_epoch(0, WAIT_MS)
    watched.listener.await_epoch(watched.zk.write_feature(NONE), WAIT_MS)
    assert watched.published[-1] == Features(1, {})
    with pytest.raises(TimeoutError):
        watched.listener.await_epoch(2, 10)


def test_disabled_and_unreadable_are_no_features(watched: Watched) -> None:
    watched.zk.write_feature(FeatureZnode(2, False, {}))
    watched.listener.start()
    assert watched.published == [Features()]
    watched.zk.write_feature(NONE)
    watched.listener.await_epoch(1, WAIT_MS)
    watched.zk.session.submit([Delete(paths.FEATURE)])
    watched.zk.create_recursive(paths.FEATURE, b"not json")
    watched.zk.write_feature(NONE)
    watched.listener.await_epoch(1, WAIT_MS)
    assert not watched.halted.is_set()


def test_a_broker_does_not_start_with_features_it_lacks(watched: Watched) -> None:
    watched.zk.write_feature(FINALIZED)
    with pytest.raises(IncompatibleFeaturesError, match="later"):
        watched.listener.start()


def test_a_broker_does_not_go_on_with_features_it_lacks(watched: Watched) -> None:
    watched.listener.start()
    watched.zk.write_feature(FINALIZED)
    assert watched.halted.wait(WAIT_MS / 1000)
    assert watched.published == [Features()]
