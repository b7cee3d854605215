"""Transactions and snapshot entries to bytes and back."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from controller.zk.embedded import acls, transactions
from controller.zk.embedded.encoding import acl_bytes
from controller.zk.embedded.jute import (
    JuteError,
    Reader,
    boolean_bytes,
    buffer_bytes,
    int_bytes,
    long_bytes,
    text_bytes,
    vector_bytes,
)
from controller.zk.embedded.records import Acl, Acls
from controller.zk.embedded.transactions import Change, Part, Transaction
from controller.zk.embedded.tree import Node

_HEADER = struct.Struct(">qqqi")
_CREATE, _DELETE, _SET_DATA, _SET_ACL, _CHECK, _ERROR, _MULTI, _OPEN, _CLOSE = range(1, 10)


def encode(transaction: Transaction) -> bytes:
    kind, body = _encode_change(transaction.change)
    return _HEADER.pack(transaction.zxid, transaction.session_id, transaction.wall_ms, kind) + body


def decode(reader: Reader) -> Transaction:
    """Raises JuteError."""
    zxid, session_id, wall_ms, kind = reader.int64(), reader.int64(), reader.int64(), reader.int32()
    return Transaction(zxid, session_id, wall_ms, _decode_change(reader, kind))


def encode_node(path: str, node: Node) -> bytes:
    """For a snapshot."""
    numbers = struct.pack(
        ">qqqqiiiqq",
        node.czxid,
        node.mzxid,
        node.ctime,
        node.mtime,
        node.version,
        node.cversion,
        node.aversion,
        node.owner,
        node.pzxid,
    )
    return text_bytes(path) + buffer_bytes(node.data) + _acl(node.acl) + numbers


def decode_node(reader: Reader) -> tuple[str, Node]:
    """Raises JuteError."""
    path = reader.text()
    node = Node(reader.buffer(), _read_acl(reader), 0, 0, 0)
    node.czxid, node.mzxid, node.ctime, node.mtime = reader.int64(), reader.int64(), reader.int64(), reader.int64()
    node.version, node.cversion, node.aversion = reader.int32(), reader.int32(), reader.int32()
    node.owner, node.pzxid = reader.int64(), reader.int64()
    return path, node


def _acl(acl: Acls) -> bytes:
    return int_bytes(-1) if acl is acls.OPEN else acl_bytes(acl)


def _read_acl(reader: Reader) -> Acls:
    items = reader.vector(lambda: Acl(reader.int32(), reader.text(), reader.text()))
    return tuple(items) if items else acls.OPEN


def _encode_change(change: Change) -> tuple[int, bytes]:
    match change:
        case transactions.CreateTxn(path, data, acl, owner, with_stat):
            body = text_bytes(path) + buffer_bytes(data) + _acl(acl) + long_bytes(owner) + boolean_bytes(with_stat)
            return _CREATE, body
        case transactions.DeleteTxn(path):
            return _DELETE, text_bytes(path)
        case transactions.SetDataTxn(path, data, version):
            return _SET_DATA, text_bytes(path) + buffer_bytes(data) + int_bytes(version)
        case transactions.SetAclTxn(path, acl, version):
            return _SET_ACL, text_bytes(path) + _acl(acl) + int_bytes(version)
        case transactions.CheckTxn(path):
            return _CHECK, text_bytes(path)
        case transactions.ErrorTxn(code):
            return _ERROR, int_bytes(code)
        case transactions.MultiTxn(parts):
            encoded = map(_encode_change, parts)
            return _MULTI, vector_bytes(int_bytes(kind) + body for kind, body in encoded)
        case transactions.CreateSessionTxn(timeout_ms):
            return _OPEN, int_bytes(timeout_ms)
        case _:
            return _CLOSE, b""


def _decode_change(reader: Reader, kind: int) -> Change:
    if kind == _MULTI:
        return transactions.MultiTxn(tuple(reader.vector(lambda: _decode_part(reader, reader.int32()))))
    if kind == _OPEN:
        return transactions.CreateSessionTxn(reader.int32())
    if kind == _CLOSE:
        return transactions.CloseSessionTxn()
    return _decode_part(reader, kind)


def _decode_part(reader: Reader, kind: int) -> Part:
    decode_part = _PARTS.get(kind)
    if decode_part is None:
        raise JuteError(f"a transaction of kind {kind}")
    found: Part = decode_part(reader)
    return found


_PARTS: dict[int, Callable[[Reader], Any]] = {
    _CREATE: lambda r: transactions.CreateTxn(r.text(), r.buffer(), _read_acl(r), r.int64(), r.boolean()),
    _DELETE: lambda r: transactions.DeleteTxn(r.text()),
    _SET_DATA: lambda r: transactions.SetDataTxn(r.text(), r.buffer(), r.int32()),
    _SET_ACL: lambda r: transactions.SetAclTxn(r.text(), _read_acl(r), r.int32()),
    _CHECK: lambda r: transactions.CheckTxn(r.text()),
    _ERROR: lambda r: transactions.ErrorTxn(r.int32()),
}
