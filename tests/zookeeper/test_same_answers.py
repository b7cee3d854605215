"""Any sequence of operations: ZooKeeper and the embedded server give the same answers, stats, zxids and events."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.zk.embedded import codes
from controller.zk.embedded.jute import Reader, buffer_bytes, int_bytes, text_bytes, vector_bytes
from tests.support import zookeeper_wire as wire
from tests.support.cluster import CLOCK
from tests.support.zookeeper import zookeeper_client
from tests.support.zookeeper_wire import WireClient

EXAMPLES = int(os.environ.get("ODRADEK_ZOOKEEPER_EXAMPLES", "60"))
_examples = itertools.count()

NAMES = ("", "/a", "/b", "/a/x", "/a/y", "/a/x/p", "/b/q", "/missing/z", "/a//b", "/a/", "/a/../b", "/\u2603")
ACLS: tuple[Any, ...] = (
    wire.OPEN_ACL,
    ((1, "world", "anyone"),),
    ((31, "auth", ""),),
    ((31, "auth", None), (1, "world", "anyone")),
    ((31, "digest", "u:iH2sV3UqbFBz0vrPxWXDDo8ZOXg="), (1, "world", "anyone")),
    ((31, "ip", "127.0.0.1"),),
    ((3, "ip", "10.0.0.0/8"),),
    (),
    ((31, "nobody", "x"),),
    ((31, "digest", "x"),),
)
DATA = (None, b"", b"data", b"more data")


class Trial:
    """One example on one server: its clients, and everything that came back, with zxids from its start."""

    def __init__(self, address: str, root: str, second_timeout_ms: int = 30_000) -> None:
        self.address = address
        self.root = root
        self.clients = [WireClient(address)]
        self.zero = self.clients[0].call(codes.EXISTS, wire.read_bytes("/"))[0]
        self.clients.append(WireClient(address, second_timeout_ms))
        self.seen: list[Any] = []
        # Clients without a connection.
        self.away: set[int] = set()
        self.do(0, codes.CREATE, wire.create_bytes(root, b""))

    def zxid(self, zxid: int) -> int:
        return zxid if zxid <= 0 else zxid - self.zero

    def stat(self, reader: Reader) -> Any:
        czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, size, count, pzxid = wire.read_stat(reader)
        ids = [client.session_id for client in self.clients]
        who = ids.index(owner) if owner in ids else owner if owner <= 0 else "gone"
        assert mtime >= ctime
        numbers = (version, cversion, aversion, size, count)
        return (self.zxid(czxid), self.zxid(mzxid), self.zxid(pzxid), who, *numbers)

    def body(self, kind: int, reader: Reader) -> Any:
        if kind == codes.CREATE:
            return reader.text()
        if kind in (codes.CREATE2, codes.CREATE_CONTAINER, codes.CREATE_TTL):
            return reader.text(), self.stat(reader)
        if kind in (codes.EXISTS, codes.SET_DATA, codes.SET_ACL):
            return self.stat(reader)
        if kind == codes.GET_DATA:
            return reader.buffer(), self.stat(reader)
        if kind in (codes.GET_CHILDREN, codes.GET_EPHEMERALS):
            return sorted(reader.texts())
        if kind == codes.GET_CHILDREN2:
            return sorted(reader.texts()), self.stat(reader)
        if kind == codes.GET_ACL:
            acl = reader.vector(lambda: (reader.int32(), reader.text(), reader.text()))
            return acl, self.stat(reader)
        if kind in (codes.MULTI, codes.MULTI_READ):
            return self.multi(reader)
        if kind == codes.SYNC:
            return reader.text()
        if kind in (codes.GET_ALL_CHILDREN_NUMBER, codes.ADD_WATCH):
            return reader.int32()
        if kind == codes.WHO_AM_I:
            return sorted(reader.vector(lambda: (reader.text(), reader.text())))
        return None

    def multi(self, reader: Reader) -> list[Any]:
        results: list[Any] = []
        while True:
            kind, done, code = reader.int32(), reader.boolean(), reader.int32()
            if done:
                return results
            if kind == codes.ERROR:
                results.append((kind, code, reader.int32()))
            else:
                results.append((kind, code, self.body(kind, reader)))

    def do(self, who: int, kind: int, body: bytes) -> None:
        if who in self.away:
            self.come_back(who)
        client = self.clients[who]
        zxid, code, reader = client.call(kind, body)
        answer = self.body(kind, reader) if code == 0 and reader.remaining() else None
        assert reader.remaining() == 0
        events = [(self.zxid(number), event, path) for number, event, path in client.events]
        client.events.clear()
        self.seen.append((who, kind, self.zxid(zxid), code, answer, events))

    def drop(self, who: int) -> None:
        """Its connection ends, its session does not."""
        self.clients[who].close(session=False)
        self.away.add(who)

    def come_back(self, who: int, timeout_ms: int = 30_000) -> None:
        """Its session goes on with another connection; if it has one still, that is closed."""
        old = self.clients[who]
        new = WireClient(self.address, timeout_ms, (old.session_id, old.password))
        self.seen.append(("back", who, new.session_id == old.session_id, new.password == old.password, new.timeout_ms))
        if who not in self.away:
            # Events that it had not read are lost with it.
            with contextlib.suppress(EOFError, ConnectionResetError):
                while True:
                    old.frame()
            old.close(session=False)
        self.away.discard(who)
        self.clients[who] = new

    def try_a_wrong_password(self, who: int) -> None:
        """Nobody gets the session by that, but who has it loses its connection."""
        old = self.clients[who]
        thief = WireClient(self.address, 30_000, (old.session_id, bytes(16)))
        self.seen.append(("thief", thief.session_id, thief.timeout_ms, thief.password))
        thief.close(session=False)
        self.come_back(who)

    def end_session(self, who: int) -> None:
        """Somebody who knows its password ends it; then it has a new one."""
        old = self.clients[who]
        thief = WireClient(self.address, 30_000, (old.session_id, old.password))
        thief.close()
        old.close(session=False)
        self.away.discard(who)
        self.settle(1 - who)
        self.clients[who] = WireClient(self.address)

    def settle(self, who: int) -> None:
        """What the end of a session deletes comes in the order of a hash table in ZooKeeper."""
        if who in self.away:
            self.come_back(who)
        self.do(who, codes.EXISTS, wire.read_bytes(self.root))
        self.seen[-1] = (*self.seen[-1][:-1], sorted(self.seen[-1][-1]))

    def finish(self) -> list[Any]:
        """The second client drops its events first, then its session; the tree is cleared."""
        for who in (0, 1):
            self.settle(who)
        self.clients[1].close()
        self.settle(0)
        self.clients[0].close()
        return self.seen


def _disconnect(trial: Trial, who: int, timeout_ms: int) -> None:
    if who not in trial.away:
        trial.drop(who)


# What may happen to a client between operations.
MOVES: tuple[Callable[[Trial, int, int], None], ...] = (
    _disconnect,
    Trial.come_back,
    lambda trial, who, timeout_ms: trial.try_a_wrong_password(who),
    lambda trial, who, timeout_ms: trial.end_session(who),
)


def operation(rng: random.Random, root: str) -> tuple[int, int, bytes]:
    who = rng.choice((0, 0, 1))
    path = root + rng.choice(NAMES)
    version = rng.choice((-1, -1, -1, 0, 1, 2))
    pick = rng.randrange(24)
    if pick < 5:
        return (who, *_create(rng, path))
    if pick < 7:
        return who, codes.DELETE, wire.path_version(path, version)
    if pick < 10:
        return who, codes.SET_DATA, wire.set_bytes(path, rng.choice(DATA), version)
    if pick < 14:
        kind = rng.choice((codes.EXISTS, codes.GET_DATA, codes.GET_CHILDREN, codes.GET_CHILDREN2))
        return who, kind, wire.read_bytes(path, rng.random() < 0.6)
    if pick < 17:
        count = rng.randint(0, 4)
        return who, codes.MULTI, wire.multi_bytes([_write(rng, root) for _ in range(count)])
    if pick == 17:
        kinds = (codes.GET_DATA, codes.GET_CHILDREN)
        reads = [(rng.choice(kinds), wire.read_bytes(root + rng.choice(NAMES), rng.random() < 0.3)) for _ in range(3)]
        return who, codes.MULTI_READ, wire.multi_bytes(reads)
    if pick == 18:
        return who, codes.SET_ACL, text_bytes(path) + wire.acl_bytes(rng.choice(ACLS)) + int_bytes(version)
    if pick == 19:
        return who, codes.ADD_WATCH, text_bytes(path) + int_bytes(rng.choice((0, 1, 1, 2)))
    if pick == 20:
        return who, rng.choice((codes.CHECK_WATCHES, codes.REMOVE_WATCHES)), wire.path_version(path, rng.randint(1, 5))
    if pick == 21:
        lists = [vector_bytes([text_bytes(root + rng.choice(NAMES[:7]))]) for _ in range(5)]
        return who, codes.SET_WATCHES2, struct.pack(">q", rng.choice((0, 1 << 40))) + b"".join(lists)
    if pick == 22:
        return who, codes.AUTH, int_bytes(0) + text_bytes("digest") + buffer_bytes(b"u:p")
    kind = rng.choice((codes.GET_ACL, codes.SYNC, codes.GET_EPHEMERALS, codes.GET_ALL_CHILDREN_NUMBER, codes.WHO_AM_I))
    return who, kind, b"" if kind == codes.WHO_AM_I else text_bytes(path)


def _create(rng: random.Random, path: str) -> tuple[int, bytes]:
    kind = rng.choice((codes.CREATE, codes.CREATE, codes.CREATE2, codes.CREATE_CONTAINER, codes.CREATE_TTL))
    acl = rng.choice(ACLS) if rng.random() < 0.2 else wire.OPEN_ACL
    if kind == codes.CREATE_TTL:
        ttl = rng.choice((60_000, 60_000, 0, 1 << 50))
        return kind, wire.create_bytes(path, b"", rng.choice((5, 6)), acl, ttl)
    flags = 4 if kind == codes.CREATE_CONTAINER else rng.choice((0, 0, 0, 1, 2, 3, 9))
    return kind, wire.create_bytes(path, rng.choice(DATA), flags, acl)


def _write(rng: random.Random, root: str) -> tuple[int, bytes]:
    path = root + rng.choice(NAMES[:8])
    version = rng.choice((-1, -1, 0, 1))
    pick = rng.randrange(6)
    if pick < 3:
        return _create(rng, path)
    if pick == 3:
        return codes.DELETE, wire.path_version(path, version)
    if pick == 4:
        return codes.SET_DATA, wire.set_bytes(path, rng.choice(DATA), version)
    return codes.CHECK, wire.path_version(path, version)


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
@given(seed=st.integers(0, 2**32), length=st.integers(1, 60))
def test_any_sequence_is_answered_alike(java_server: str, embedded_server: str, seed: int, length: int) -> None:
    root = f"/example-{next(_examples)}"
    trials = [Trial(address, root) for address in (java_server, embedded_server)]
    rng = random.Random(seed)
    for number in range(length):
        move = rng.randrange(40)
        if move < len(MOVES):
            who, timeout_ms = rng.randrange(2), rng.choice((20_000, 30_000, 1 << 30))
            for trial in trials:
                MOVES[move](trial, who, timeout_ms)
            assert trials[1].seen[-1] == trials[0].seen[-1], (number, move, who)
        who, kind, body = operation(rng, root)
        for trial in trials:
            trial.do(who, kind, body)
        assert trials[1].seen[-1] == trials[0].seen[-1], (number, kind, body)
    real, ours = [trial.finish() for trial in trials]
    assert ours == real


@pytest.mark.parametrize("seed", [1, 2])
def test_a_session_whose_time_is_over_leaves_the_same(java_server: str, embedded_server: str, seed: int) -> None:
    """Ended by the server itself, which takes seconds: ZooKeeper looks at its ticks."""
    root = f"/example-{next(_examples)}"
    trials = [Trial(address, root, 1_000) for address in (java_server, embedded_server)]
    rng = random.Random(seed)
    plan = [(1, codes.CREATE, wire.create_bytes(f"{root}/e-{number}", b"", 1)) for number in range(5)]
    plan += [operation(rng, root) for _ in range(30)]
    plan += [(0, codes.ADD_WATCH, text_bytes(root) + int_bytes(1))]
    for trial in trials:
        for step in plan:
            trial.do(*step)
        trial.settle(0)
        trial.drop(1)
    for trial in trials:
        watcher = trial.clients[0]
        last = [path for _, _, path in watcher.events]
        limit = CLOCK.monotonic_ms() + 30_000
        while f"{root}/e-0" not in last:
            assert CLOCK.monotonic_ms() < limit, "the session does not end"
            watcher.call(codes.EXISTS, wire.read_bytes("/"))
            last = [path for _, _, path in watcher.events]
        trial.settle(0)
        trial.clients[1] = WireClient(trial.address)
        trial.away.discard(1)
    real, ours = [trial.finish() for trial in trials]
    assert ours == real


@pytest.mark.parametrize("path", ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"])
def test_what_is_there_at_first(java_server: str, embedded_server: str, path: str) -> None:
    seen = []
    for address in (java_server, embedded_server):
        client = WireClient(address)
        _, code, reader = client.call(codes.GET_ACL, text_bytes(path))
        acl = reader.vector(lambda reader=reader: (reader.int32(), reader.text(), reader.text()))  # type: ignore[misc]
        seen.append((code, acl, wire.read_stat(reader)[4:7] if path != "/" else None))
        client.close()
    assert seen[0] == seen[1]


def test_kazoo_learns_the_same_version(java_server: str, embedded_server: str) -> None:
    found = []
    for address in (java_server, embedded_server):
        with zookeeper_client(address) as client:
            found.append((client.server_version(), client.command(b"ruok")))
    assert found[0] == found[1]


@pytest.mark.parametrize("wanted_ms", [-1, 0, 100, 1_000, 59_999, 1 << 30])
def test_timeouts_are_agreed_on_alike(java_server: str, embedded_server: str, wanted_ms: int) -> None:
    agreed = []
    for address in (java_server, embedded_server):
        client = WireClient(address, wanted_ms)
        agreed.append(client.timeout_ms)
        client.close()
    assert agreed[0] == agreed[1]
