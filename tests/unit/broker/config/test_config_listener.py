"""Following configs in a ZooKeeper whose notifications are late, or gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from queue import SimpleQueue
from typing import Any

import pytest

from broker.config.change_listener import ConfigListener
from controller.zk import paths
from controller.zk.admin import AdminZkClient
from controller.zk.client import ZkClient
from controller.zk.kazoo_session import KazooSession
from timer.chance import SystemChance
from timer.clock import SystemClock

ALICE = f"{paths.USER_CONFIG}/alice"
BOB = f"{paths.USER_CONFIG}/bob"
OLD, NEW = {"SCRAM-SHA-512": "old"}, {"SCRAM-SHA-512": "new"}


@pytest.fixture
def zk(chroot: str) -> Iterator[ZkClient]:
    session = KazooSession(chroot, session_timeout_ms=6000)
    session.start()
    client = ZkClient(session)
    client.create_startup_paths()
    client.register_controller(1, 1)
    yield client
    client.close()


class Followed:
    """A listener, and what it has told of users."""

    def __init__(self, zk: ZkClient) -> None:
        self.users: dict[str, Mapping[str, str]] = {}
        self.told: SimpleQueue[str] = SimpleQueue()
        self.listener = ConfigListener(zk, {paths.USER_CONFIG: self._tell}, SystemClock())

    def _tell(self, name: str, overrides: Mapping[str, str]) -> None:
        self.users[name] = overrides
        self.told.put(name)


def test_what_changed_without_a_notification_is_read_in_a_new_session(zk: ZkClient) -> None:
    admin = AdminZkClient(zk, chance=SystemChance())
    admin.change_configs(ALICE, OLD)
    admin.change_configs(BOB, OLD)
    followed = Followed(zk)
    followed.listener.start()
    while followed.users != {"alice": OLD, "bob": OLD}:
        followed.told.get(timeout=60)
    # As if the notifications had come and gone while there was no session.
    for path, config in ((ALICE, NEW), (BOB, {})):
        zk.set_config(path, config)
    followed.listener._listener._on_new_session()
    while followed.users != {"alice": NEW, "bob": {}}:
        followed.told.get(timeout=60)
    followed.listener.close()


def test_what_was_read_first_is_not_applied_last(zk: ZkClient, monkeypatch: pytest.MonkeyPatch) -> None:
    AdminZkClient(zk, chance=SystemChance()).change_configs(ALICE, OLD)
    followed = Followed(zk)
    read = zk.config
    others: list[threading.Thread] = []

    def changed_meanwhile(path: str, **options: Any) -> dict[str, str]:
        found = read(path, **options)
        if not others:
            zk.set_config(ALICE, NEW)
            others.append(threading.Thread(target=followed.listener._apply, args=(ALICE,)))
            others[0].start()
            others[0].join(0.2)  # it must wait for us, so this takes its time and proves nothing by it
        return found

    monkeypatch.setattr(zk, "config", changed_meanwhile)
    followed.listener._apply(ALICE)
    others[0].join(60)
    assert followed.users == {"alice": NEW}
