"""The whole state in one file, and the state out of snapshot and logs."""

from __future__ import annotations

from pathlib import Path

from controller.zk.embedded import transaction_codec
from controller.zk.embedded.frames import StoreError, frame, read_frames, write_durably
from controller.zk.embedded.jute import JuteError, Reader, int_bytes, long_bytes, vector_bytes
from controller.zk.embedded.machine import Limits, Machine
from controller.zk.embedded.sessions import Sessions
from controller.zk.embedded.tree import Tree

SNAPSHOT_MAGIC = b"odradek zookeeper snapshot 1\n"
LOG_MAGIC = b"odradek zookeeper log 1\n"
_NODES_A_FRAME = 1_000


def files(directory: Path, kind: str) -> list[tuple[int, Path]]:
    """``kind.zxid`` of a directory, oldest first."""
    found = []
    for path in directory.glob(f"{kind}.*"):
        suffix = path.name.removeprefix(f"{kind}.")
        if len(suffix) == 16:
            found.append((int(suffix, 16), path))
    return sorted(found)


def file_name(kind: str, zxid: int) -> str:
    return f"{kind}.{zxid:016x}"


def write_snapshot(directory: Path, machine: Machine) -> None:
    """As ``snapshot.ZXID``. Raises OSError."""
    sessions = machine.sessions
    head = long_bytes(machine.zxid) + long_bytes(sessions.next_id)
    live = vector_bytes(long_bytes(each.session_id) + int_bytes(each.timeout_ms) for each in sessions.live.values())
    paths = [path for path in machine.tree.nodes if path]
    parts = [SNAPSHOT_MAGIC, frame(head + int_bytes(len(paths)) + live)]
    for at in range(0, len(paths), _NODES_A_FRAME):
        chunk = paths[at : at + _NODES_A_FRAME]
        parts.append(
            frame(vector_bytes(transaction_codec.encode_node(path, machine.tree.nodes[path]) for path in chunk))
        )
    write_durably(directory / file_name("snapshot", machine.zxid), b"".join(parts))


def read_snapshot(path: Path, sessions: Sessions, limits: Limits, monotonic_ms: int) -> Machine:
    """Sessions get their whole timeout again. Raises StoreError."""
    payloads, _ = read_frames(path, SNAPSHOT_MAGIC)
    try:
        head = Reader(payloads[0])
        zxid, next_id, count = head.int64(), head.int64(), head.int32()
        for session_id, timeout_ms in head.vector(lambda: (head.int64(), head.int32())):
            sessions.add(session_id, timeout_ms, monotonic_ms)
        nodes = []
        for payload in payloads[1:]:
            reader = Reader(payload)
            nodes += reader.vector(lambda reader=reader: transaction_codec.decode_node(reader))  # type: ignore[misc]
    except (JuteError, IndexError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error
    if len(nodes) != count:
        raise StoreError(f"{path} is damaged: {len(nodes)} of {count} znodes")
    sessions.next_id = max(sessions.next_id, next_id)
    try:
        tree = Tree.restored(nodes)
    except KeyError as error:
        raise StoreError(f"{path} is damaged: there is no znode {error} for its child") from error
    return Machine(sessions, limits, tree, zxid)


def recover(
    directory: Path, sessions: Sessions, limits: Limits, monotonic_ms: int, logs: list[tuple[int, Path]]
) -> Machine:
    """The newest snapshot and what `logs` have beyond it; a torn end of the last is cut off. Raises StoreError."""
    snapshots = files(directory, "snapshot")
    if snapshots:
        machine = read_snapshot(snapshots[-1][1], sessions, limits, monotonic_ms)
    else:
        machine = Machine(sessions, limits)
    for number, (_, path) in enumerate(logs):
        payloads, end = read_frames(path, LOG_MAGIC)
        if end < path.stat().st_size:
            if number < len(logs) - 1:
                raise StoreError(f"{path} is damaged at byte {end}, and a later log follows it")
            with path.open("r+b") as file:
                file.truncate(end)
        for payload in payloads:
            _replay(machine, path, payload, monotonic_ms)
    return machine


def _replay(machine: Machine, path: Path, payload: bytes, monotonic_ms: int) -> None:
    reader = Reader(payload)
    try:
        while reader.remaining():
            transaction = transaction_codec.decode(reader)
            if transaction.zxid <= machine.zxid:
                continue
            if transaction.zxid != machine.zxid + 1:
                raise StoreError(
                    f"{path} goes on at zxid {transaction.zxid:#x} after {machine.zxid:#x}: a log is missing"
                )
            machine.replay(transaction, monotonic_ms)
    except (JuteError, KeyError, AssertionError) as error:
        raise StoreError(f"{path} is damaged: a transaction can't be done ({error})") from error
