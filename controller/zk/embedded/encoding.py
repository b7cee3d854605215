"""Answers and events to frames, each behind its length."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from controller.zk.embedded import codes, records
from controller.zk.embedded.jute import boolean_bytes, buffer_bytes, int_bytes, text_bytes, vector_bytes
from controller.zk.embedded.records import Acls, Message

_STAT = struct.Struct(">qqqqiiiqiiq")
_HEADER = struct.Struct(">iiqi")
_EVENT = struct.Struct(">iiqiii")
_CONNECTED = struct.Struct(">iiq")
_OP = struct.Struct(">i?i")
_END_OF_MULTI = _OP.pack(-1, True, -1)


def encode(message: Message) -> bytes:
    """A whole frame; empty for `Close`."""
    match message:
        case records.Answer(xid, zxid, code, body):
            payload = b"" if body is None else _ENCODERS[type(body)](body)
            return _HEADER.pack(16 + len(payload), xid, zxid, code) + payload
        case records.Event(zxid, kind, path):
            name = text_bytes(path)
            head = _EVENT.pack(24 + len(name), codes.NOTIFICATION_XID, zxid, codes.OK, kind, codes.SYNC_CONNECTED)
            return head + name
        case records.ConnectAnswer(timeout_ms, session_id, password, with_read_only):
            payload = _CONNECTED.pack(0, timeout_ms, session_id) + buffer_bytes(password)
            if with_read_only:
                payload += boolean_bytes(False)
            return int_bytes(len(payload)) + payload
        case _:
            return b""


def acl_bytes(acl: Acls) -> bytes:
    return vector_bytes(int_bytes(item.perms) + text_bytes(item.scheme) + text_bytes(item.id) for item in acl)


def _texts(values: list[str]) -> bytes:
    return vector_bytes(map(text_bytes, values))


def _created(body: records.Created) -> bytes:
    path = text_bytes(body.path)
    return path if body.stat is None else path + _STAT.pack(*body.stat)


def _children(body: records.Children) -> bytes:
    names = _texts(body.names)
    return names if body.stat is None else names + _STAT.pack(*body.stat)


def _clients(body: records.Clients) -> bytes:
    return vector_bytes(text_bytes(scheme) + text_bytes(user) for scheme, user in body.infos)


def _result_type(result: Any) -> int:
    if isinstance(result, records.Created):
        return codes.CREATE if result.stat is None else codes.CREATE2
    return _RESULT_TYPES[type(result)]


def _multi(body: records.MultiResult) -> bytes:
    parts = []
    for result in body.results:
        code = result.code if isinstance(result, records.Failed) else codes.OK
        parts.append(_OP.pack(_result_type(result), False, code))
        parts.append(_ENCODERS[type(result)](result))
    return b"".join((*parts, _END_OF_MULTI))


_RESULT_TYPES: dict[type, int] = {
    records.Deleted: codes.DELETE,
    records.Checked: codes.CHECK,
    records.Stated: codes.SET_DATA,
    records.Data: codes.GET_DATA,
    records.Children: codes.GET_CHILDREN,
    records.Failed: codes.ERROR,
}

_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    records.Created: _created,
    records.Stated: lambda body: _STAT.pack(*body.stat),
    records.Data: lambda body: buffer_bytes(body.data) + _STAT.pack(*body.stat),
    records.Children: _children,
    records.AclList: lambda body: acl_bytes(body.acl) + _STAT.pack(*body.stat),
    records.Path: lambda body: text_bytes(body.path),
    records.Paths: lambda body: _texts(body.paths),
    records.Number: lambda body: int_bytes(body.value),
    records.Clients: _clients,
    records.Deleted: lambda body: b"",
    records.Checked: lambda body: b"",
    records.Failed: lambda body: int_bytes(body.code),
    records.MultiResult: _multi,
    records.NullToken: lambda body: buffer_bytes(None),
}
