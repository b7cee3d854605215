"""Bytes of a frame to requests."""

from __future__ import annotations

from collections.abc import Callable

from controller.zk.embedded import codes, records
from controller.zk.embedded.jute import JuteError, Reader
from controller.zk.embedded.records import Acl, Acls, Request, Write

_EMPTY_PASSWORD = b""


def decode_connect(frame: bytes) -> records.ConnectRequest:
    """The first frame of a connection. Raises JuteError."""
    reader = Reader(frame)
    reader.int32()  # protocol version, always 0
    zxid, timeout, session = reader.int64(), reader.int32(), reader.int64()
    password = reader.buffer()
    # Clients before 3.4 end here.
    knows_read_only = reader.remaining() > 0
    return records.ConnectRequest(zxid, timeout, session, password or _EMPTY_PASSWORD, knows_read_only)


def decode_header(frame: bytes) -> tuple[int, int]:
    """xid and type of any other frame. Raises JuteError."""
    reader = Reader(frame)
    return reader.int32(), reader.int32()


def decode_body(kind: int, frame: bytes) -> Request | None:
    """The request behind the header; `Malformed` if it can't be read, None if there is no such type."""
    decode = _BODIES.get(kind)
    if decode is None:
        return None
    try:
        return decode(Reader(frame, 8))
    except JuteError:
        return records.Malformed()


def _acls(reader: Reader) -> Acls:
    # kazoo writes an empty string as null: the id of "auth".
    return tuple(reader.vector(lambda: Acl(reader.int32(), reader.text(), reader.text_or_empty())))


def _create(kind: int) -> Callable[[Reader], records.Create]:
    def decode(reader: Reader) -> records.Create:
        path, data, acl, flags = reader.text(), reader.buffer(), _acls(reader), reader.int32()
        return records.Create(kind, path, data, acl, flags, reader.int64() if kind == codes.CREATE_TTL else -1)

    return decode


def _delete(reader: Reader) -> records.Delete:
    return records.Delete(reader.text(), reader.int32())


def _set_data(reader: Reader) -> records.SetData:
    return records.SetData(reader.text(), reader.buffer(), reader.int32())


def _check(reader: Reader) -> records.Check:
    return records.Check(reader.text(), reader.int32())


def _read(reader: Reader) -> records.Read:
    return records.Read(reader.text(), reader.boolean())


def _of_path(reader: Reader) -> records.OfPath:
    return records.OfPath(reader.text())


def _nothing(reader: Reader) -> records.Nothing:
    return records.Nothing()


def _auth(reader: Reader) -> records.Auth:
    reader.int32()  # a type that nobody uses
    return records.Auth(reader.text(), reader.buffer() or b"")


def _set_watches(reader: Reader) -> records.SetWatches:
    return records.SetWatches(reader.int64(), reader.texts(), reader.texts(), reader.texts(), [], [])


def _set_watches2(reader: Reader) -> records.SetWatches:
    texts = reader.texts
    return records.SetWatches(reader.int64(), texts(), texts(), texts(), texts(), texts())


def _add_watch(reader: Reader) -> records.AddWatch:
    path, mode = reader.text(), reader.int32()
    if mode not in (0, 1):
        raise JuteError(f"watch mode {mode}")
    return records.AddWatch(path, mode == 1)


def _watch_kind(reader: Reader) -> records.WatchKind:
    path, kind = reader.text(), reader.int32()
    if not codes.WATCHES_CHILDREN <= kind <= codes.WATCHES_RECURSIVE:
        raise JuteError(f"watch kind {kind}")
    return records.WatchKind(path, kind)


_WRITES: dict[int, Callable[[Reader], Write]] = {
    codes.CREATE: _create(codes.CREATE),
    codes.CREATE2: _create(codes.CREATE2),
    codes.CREATE_CONTAINER: _create(codes.CREATE_CONTAINER),
    codes.CREATE_TTL: _create(codes.CREATE_TTL),
    codes.DELETE: _delete,
    codes.SET_DATA: _set_data,
    codes.CHECK: _check,
}


def _next_op(reader: Reader) -> int | None:
    """The type of a multi's next operation, None at its end."""
    kind, done = reader.int32(), reader.boolean()
    reader.int32()  # an error code, only meant for answers
    return None if done else kind


def _multi(reader: Reader) -> records.Multi:
    ops: list[Write] = []
    while (kind := _next_op(reader)) is not None:
        decode = _WRITES.get(kind)
        if decode is None:
            raise JuteError(f"operation {kind} in a multi")
        op = decode(reader)
        if isinstance(op, records.Create) and kind != codes.CREATE_TTL and not 0 <= op.flags <= codes.MAX_FLAG:
            raise JuteError(f"create flags {op.flags}")
        ops.append(op)
    return records.Multi(ops)


def _multi_read(reader: Reader) -> records.MultiRead:
    ops: list[tuple[int, records.Read]] = []
    while (kind := _next_op(reader)) is not None:
        if kind not in (codes.GET_DATA, codes.GET_CHILDREN):
            raise JuteError(f"operation {kind} in a multi of reads")
        # Whether to watch is read and not done.
        ops.append((kind, records.Read(_read(reader).path)))
    return records.MultiRead(ops)


_BODIES: dict[int, Callable[[Reader], Request]] = {
    **_WRITES,
    codes.DELETE_CONTAINER: lambda reader: records.DeleteContainer(reader.text()),
    codes.EXISTS: _read,
    codes.GET_DATA: _read,
    codes.GET_CHILDREN: _read,
    codes.GET_CHILDREN2: _read,
    codes.GET_ACL: _of_path,
    codes.SET_ACL: lambda reader: records.SetAcl(reader.text(), _acls(reader), reader.int32()),
    codes.SYNC: _of_path,
    codes.PING: _nothing,
    codes.MULTI: _multi,
    codes.MULTI_READ: _multi_read,
    codes.RECONFIG: _nothing,
    codes.CHECK_WATCHES: _watch_kind,
    codes.REMOVE_WATCHES: _watch_kind,
    codes.AUTH: _auth,
    codes.SASL: _nothing,
    codes.SET_WATCHES: _set_watches,
    codes.SET_WATCHES2: _set_watches2,
    codes.GET_EPHEMERALS: _of_path,
    codes.GET_ALL_CHILDREN_NUMBER: _of_path,
    codes.ADD_WATCH: _add_watch,
    codes.WHO_AM_I: _nothing,
    codes.CLOSE_SESSION: _nothing,
}
