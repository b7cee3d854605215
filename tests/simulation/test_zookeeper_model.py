"""The model of ZooKeeper answers as the real server does: random operations on both, compared."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from controller.zk.kazoo_session import KazooSession
from controller.zk.ops import (
    Check,
    Code,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Request,
    Response,
    SetData,
    WriteOp,
)
from controller.zk.session import ChildHandler, DataHandler, Session, SessionExpiredError
from tests.simulation.zookeeper import ModelSession, ZooKeeperModel
from timer.clock import ManualClock

PATHS = ("/a", "/b", "/a/x", "/a/y", "/a/x/p", "/b/q")


@pytest.fixture
def real(chroot: str) -> Iterator[KazooSession]:
    session = KazooSession(chroot, session_timeout_ms=6000)
    session.start()
    yield session
    session.close()


def random_write(rng: random.Random) -> WriteOp:
    path = rng.choice(PATHS)
    data = rng.choice((None, b"", b"data"))
    version = rng.choice((-1, -1, 0, 1, 2))
    kind = rng.randrange(6)
    if kind < 2:
        return Create(path, data, ephemeral=rng.random() < 0.2)
    if kind == 2:
        return Create(path + "/s_", data, sequential=True)
    if kind == 3:
        return Delete(path, version)
    return SetData(path, data, version)


def random_request(rng: random.Random) -> Request:
    kind = rng.randrange(8)
    path = rng.choice(PATHS)
    if kind == 0:
        return GetData(path)
    if kind == 1:
        return Exists(path)
    if kind == 2:
        return GetChildren(rng.choice((path, "/")))
    if kind <= 4:
        ops = [random_write(rng) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.5:
            ops.insert(0, Check(rng.choice(PATHS), rng.choice((0, 1))))
        return Multi(tuple(ops))
    return random_write(rng)  # type: ignore[return-value]


def comparable(response: Response) -> object:
    stat = response.stat
    return (
        response.code,
        response.path,
        response.data,
        sorted(response.children),
        (stat.version, stat.cversion, stat.ephemeral_owner != 0) if stat else None,
        [comparable(item) for item in response.results],
    )


@pytest.mark.parametrize("seed", range(8))
def test_model_and_server_answer_alike(real: KazooSession, seed: int) -> None:
    rng = random.Random(seed)
    model = ModelSession(ZooKeeperModel(ManualClock()))
    for number in range(150):
        request = random_request(rng)
        expected, found = real.submit([request])[0], model.submit([request])[0]
        assert comparable(found) == comparable(expected), (number, request)


@pytest.mark.parametrize("kind", ["real", "model"])
def test_watches_fire_alike(kind: str, request: pytest.FixtureRequest) -> None:
    events: list[str] = []
    model = ModelSession(ZooKeeperModel(ManualClock()))
    session: Session = request.getfixturevalue("real") if kind == "real" else model

    def settle(count: int) -> None:
        limit = time.monotonic() + 60
        while len(events) < count and time.monotonic() < limit:
            if kind == "model":
                model.deliver()
            session.submit([Exists("/")])

    session.register_data_handler(
        DataHandler(
            "/a",
            on_created=lambda: events.append("created"),
            on_changed=lambda: events.append("changed"),
            on_deleted=lambda: events.append("deleted"),
        )
    )
    session.register_child_handler(ChildHandler("/a", lambda: events.append("children")))
    session.submit([Exists("/a"), Create("/a", b"")])
    settle(1)
    session.submit([GetData("/a"), GetChildren("/a"), Create("/a/x", b""), SetData("/a", b"1"), SetData("/a", b"2")])
    settle(3)
    session.submit([GetData("/a"), GetChildren("/a", watch=False), Delete("/a/x"), Delete("/a")])
    settle(4)
    assert events == ["created", "children", "changed", "deleted"]


def test_expiry_takes_ephemerals_and_refuses_requests() -> None:
    server = ZooKeeperModel(ManualClock())
    one, two = ModelSession(server), ModelSession(server)
    one.submit([Create("/e", b"", ephemeral=True)])
    gone: list[str] = []
    two.register_data_handler(DataHandler("/e", on_deleted=lambda: gone.append("deleted")))
    two.submit([Exists("/e")])
    one.cut_off = True
    with pytest.raises(SessionExpiredError):
        one.submit([GetData("/e")])
    assert two.deliver()
    assert gone == ["deleted"]
    one.cut_off = False
    old = one.session_id
    one.renew()
    assert one.session_id != old
    assert one.submit([Exists("/e")])[0].code is Code.NO_NODE


def test_a_lost_answer_means_applied_twice() -> None:
    session = ModelSession(ZooKeeperModel(ManualClock()), loses_answer=lambda: True)
    assert session.submit([Create("/a", b"")])[0].code is Code.NODE_EXISTS
