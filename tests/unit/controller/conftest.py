"""Clients on a chroot of their own, and controllers with recorded brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from controller.zk.client import ZkClient
from controller.zk.kazoo_session import KazooSession
from tests.unit.controller.harness import Harness


@pytest.fixture
def connect(chroot: str) -> str:
    """A connect string with a chroot that no other test uses."""
    return chroot


@pytest.fixture
def make_client(connect: str) -> Iterator[Callable[..., ZkClient]]:
    """Make clients, each with a session of its own, on the chroot of this test; closed at its end."""
    clients: list[ZkClient] = []

    def make(**options: object) -> ZkClient:
        options.setdefault("session_timeout_ms", 6000)
        session = KazooSession(connect, **options)  # type: ignore[arg-type]
        session.start()
        client = ZkClient(session)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def zk(make_client: Callable[..., ZkClient]) -> ZkClient:
    return make_client()


@pytest.fixture
def make(make_client: Callable[..., ZkClient]) -> Iterator[Callable[..., Harness]]:
    """Make controllers of brokers on the chroot of this test."""
    made: list[Harness] = []

    def build(version: str = "3.9", broker_id: int = 1, **options: object) -> Harness:
        harness = Harness(make_client, version, broker_id, **options)
        made.append(harness)
        return harness

    yield build
    for harness in made:
        harness.controller.shutdown()


@pytest.fixture
def cluster(make: Callable[..., Harness]) -> Harness:
    """A controller, broker 1, with brokers 2 and 3."""
    harness = make()
    harness.start(2, 3)
    return harness
