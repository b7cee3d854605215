"""The embedded ZooKeeper's store: what was written is there again; torn ends are cut off, damage is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.zk.embedded import codes, compaction, records, snapshots
from controller.zk.embedded.acls import OPEN
from controller.zk.embedded.frames import StoreError
from controller.zk.embedded.machine import Limits, Machine, Moment
from controller.zk.embedded.sessions import Sessions
from controller.zk.embedded.snapshots import files
from controller.zk.embedded.state import Connection
from controller.zk.embedded.store import FileStore
from timer.chance import SystemChance

NOW = Moment(1_700_000_000_000, 0)


def opened(directory: Path, log_bytes: int = 1 << 20) -> tuple[FileStore, Machine]:
    store = FileStore(directory, log_bytes)
    return store, store.recover(Sessions(1, store.secret(SystemChance())), Limits(), 0)


def write(store: FileStore, machine: Machine, connection: Connection, kind: int, request: records.Request) -> None:
    """As one round of the disk."""
    for transaction in machine.handle(connection, 1, kind, request, NOW).transactions:
        store.append(transaction)
    store.write(store.take())


def connected(store: FileStore, machine: Machine) -> Connection:
    connection = Connection()
    for transaction in machine.connect(connection, records.ConnectRequest(0, 30_000, 0, b""), NOW).transactions:
        store.append(transaction)
    store.write(store.take())
    return connection


def create(path: str, flags: int = 0) -> records.Create:
    return records.Create(codes.CREATE, path, path.encode(), OPEN, flags)


def state(machine: Machine) -> object:
    nodes = {path: (node.data, node.acl, node.stat()) for path, node in machine.tree.nodes.items()}
    return machine.zxid, nodes, sorted(machine.sessions.live), machine.tree.ephemerals, machine.tree.data_size


def filled(directory: Path, log_bytes: int = 1 << 20) -> tuple[FileStore, Machine]:
    store, machine = opened(directory, log_bytes)
    connection = connected(store, machine)
    for number in range(20):
        write(store, machine, connection, codes.CREATE, create(f"/n{number}", number % 4))
    write(store, machine, connection, codes.SET_DATA, records.SetData("/n0", None, 0))
    write(store, machine, connection, codes.DELETE, records.Delete("/n4", 7))  # an error uses up a zxid too
    acl = (records.Acl(1, "world", "anyone"),)
    write(store, machine, connection, codes.SET_ACL, records.SetAcl("/n8", acl, -1))
    multi = records.Multi([create("/m"), create("/m/x"), records.Delete("/n12", 0)])
    write(store, machine, connection, codes.MULTI, multi)
    return store, machine


def close(store: FileStore) -> None:
    store.__exit__(None, None, None)


def test_a_state_comes_back_from_its_log(tmp_path: Path) -> None:
    store, machine = filled(tmp_path)
    close(store)
    again, recovered = opened(tmp_path)
    assert state(recovered) == state(machine)
    assert recovered.sessions.next_id > max(recovered.sessions.live)
    close(again)


def test_a_state_comes_back_from_a_snapshot_and_the_log_behind_it(tmp_path: Path) -> None:
    store, machine = filled(tmp_path)
    close(store)
    store, machine = opened(tmp_path)  # opens a new log
    connection = connected(store, machine)
    write(store, machine, connection, codes.CREATE, create("/after"))
    close(store)
    compaction.compact(tmp_path)
    assert len(list(tmp_path.glob("snapshot.*"))) == 1
    assert len(list(tmp_path.glob("log.*"))) == 1
    again, recovered = opened(tmp_path)
    assert state(recovered) == state(machine)
    close(again)


@pytest.mark.parametrize("step", range(1, 60, 7))
def test_a_torn_end_is_cut_off(tmp_path: Path, step: int) -> None:
    store, machine = opened(tmp_path)
    connection = connected(store, machine)
    write(store, machine, connection, codes.CREATE, create("/kept"))
    log = next(tmp_path.glob("log.*"))
    before, kept = log.stat().st_size, state(machine)
    write(store, machine, connection, codes.CREATE, create("/torn"))
    close(store)
    with log.open("r+b") as file:
        file.truncate(min(before + step, log.stat().st_size - 1))
    again, recovered = opened(tmp_path)
    assert state(recovered) == kept
    close(again)
    assert log.stat().st_size == before


def test_damage_before_a_whole_frame_is_named(tmp_path: Path) -> None:
    store, _ = filled(tmp_path)
    close(store)
    log = next(tmp_path.glob("log.*"))
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    with pytest.raises(StoreError, match=rf"{log} is damaged at byte \d+") as caught:
        opened(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_snapshot_whose_parents_are_missing_is_named(tmp_path: Path) -> None:
    """The checksums fit: something wrote it wrongly."""
    machine = Machine(Sessions(1, b"secret"))
    machine.tree.nodes["/gone/child"] = machine.tree.nodes["/zookeeper"]
    snapshots.write_snapshot(tmp_path, machine)
    with pytest.raises(StoreError, match="no znode '/gone' for its child"):
        opened(tmp_path)


def test_a_damaged_snapshot_is_named(tmp_path: Path) -> None:
    store, _ = filled(tmp_path)
    close(store)
    close(opened(tmp_path)[0])
    compaction.compact(tmp_path)
    snapshot = next(tmp_path.glob("snapshot.*"))
    snapshot.write_bytes(snapshot.read_bytes()[:-10])
    with pytest.raises(StoreError, match=f"{snapshot} is damaged"):
        opened(tmp_path)


def test_two_servers_do_not_share_a_directory(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    with pytest.raises(StoreError, match="another server uses"):
        FileStore(tmp_path)
    close(store)
    close(FileStore(tmp_path))


class Short:
    """A file on a disk that takes only a few bytes at a time."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: memoryview) -> int:
        return int(self._file.write(data[:7]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_disk_that_takes_a_part_gets_the_rest(tmp_path: Path) -> None:
    store, machine = opened(tmp_path)
    with store:
        vars(store)["_file"] = Short(vars(store)["_file"])
        connection = connected(store, machine)
        write(store, machine, connection, codes.CREATE, create("/a"))
        write(store, machine, connection, codes.CREATE, create("/b"))
    store, again = opened(tmp_path)
    with store:
        assert sorted(again.tree.nodes) == sorted(machine.tree.nodes)
        assert again.zxid == machine.zxid


def test_many_starts_end_in_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that makes it takes our code, whatever is called so in the working directory."""
    (tmp_path / "controller.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    for number in range(23):
        store, machine = opened(data)
        with store:  # waits for the snapshot under way
            write(store, machine, connected(store, machine), codes.CREATE, create(f"/{number}"))
    assert len(files(data, "snapshot")) == 1
    assert len(files(data, "log")) < 5
    store, again = opened(data)
    with store:
        assert {f"/{number}" for number in range(23)} <= set(again.tree.nodes)
