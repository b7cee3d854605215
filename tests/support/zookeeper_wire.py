"""A ZooKeeper client of raw frames: what it sends and gets is the protocol itself."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Any

from controller.zk.embedded import codes
from controller.zk.embedded.jute import Reader, boolean_bytes, buffer_bytes, int_bytes, text_bytes, vector_bytes

OPEN_ACL = ((31, "world", "anyone"),)
STAT_FIELDS = 11
_STAT = struct.Struct(">qqqqiiiqiiq")


def acl_bytes(acl: Any) -> bytes:
    """An id of None is a null string."""
    return vector_bytes(
        int_bytes(perms) + text_bytes(scheme) + (buffer_bytes(None) if name is None else text_bytes(name))
        for perms, scheme, name in acl
    )


def create_bytes(path: str, data: bytes | None, flags: int = 0, acl: Any = OPEN_ACL, ttl: int | None = None) -> bytes:
    body = text_bytes(path) + buffer_bytes(data) + acl_bytes(acl) + int_bytes(flags)
    return body if ttl is None else body + struct.pack(">q", ttl)


def path_version(path: str, version: int) -> bytes:
    return text_bytes(path) + int_bytes(version)


def set_bytes(path: str, data: bytes | None, version: int) -> bytes:
    return text_bytes(path) + buffer_bytes(data) + int_bytes(version)


def read_bytes(path: str, watch: bool = False) -> bytes:
    return text_bytes(path) + boolean_bytes(watch)


def multi_bytes(ops: list[tuple[int, bytes]]) -> bytes:
    heads = [struct.pack(">i?i", kind, False, -1) + body for kind, body in ops]
    return b"".join((*heads, struct.pack(">i?i", -1, True, -1)))


class WireClient:
    """One connection and its session."""

    def __init__(self, address: str, timeout_ms: int = 30_000, session: tuple[int, bytes] = (0, bytes(16))) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 30)
        self.socket.settimeout(30)
        self._file = self.socket.makefile("rb")
        self._xid = 0
        self.events: list[tuple[int, int, str]] = []
        request = struct.pack(">iqiq", 0, 0, timeout_ms, session[0]) + buffer_bytes(session[1]) + b"\0"
        self.socket.sendall(int_bytes(len(request)) + request)
        answer = Reader(self.frame())
        self.protocol = answer.int32()
        self.timeout_ms, self.session_id = answer.int32(), answer.int64()
        self.password = answer.buffer() or b""

    def frame(self) -> bytes:
        """The next one. Raises EOFError when the server has closed."""
        head = self._file.read(4)
        if len(head) < 4:
            raise EOFError
        return self._file.read(int.from_bytes(head, "big"))

    def send(self, kind: int, body: bytes = b"", xid: int | None = None) -> int:
        self._xid += 1
        number = self._xid if xid is None else xid
        frame = struct.pack(">ii", number, kind) + body
        self.socket.sendall(int_bytes(len(frame)) + frame)
        return number

    def answer(self, xid: int) -> tuple[int, int, Reader]:
        """zxid, error and body of the answer; events before it are kept, marked with how many answers came before."""
        while True:
            reader = Reader(self.frame())
            found, zxid, code = reader.int32(), reader.int64(), reader.int32()
            if found == codes.NOTIFICATION_XID:
                kind, _, path = reader.int32(), reader.int32(), reader.text()
                self.events.append((zxid, kind, path))
                continue
            assert found == xid, (found, xid)
            return zxid, code, reader

    def call(self, kind: int, body: bytes = b"", xid: int | None = None) -> tuple[int, int, Reader]:
        return self.answer(self.send(kind, body, xid))

    def close(self, *, session: bool = True) -> None:
        if session:
            with contextlib.suppress(EOFError, OSError):
                self.call(codes.CLOSE_SESSION)
        self._file.close()
        self.socket.close()


def read_stat(reader: Reader) -> tuple[int, ...]:
    return tuple(reader.int64() if code == "q" else reader.int32() for code in _STAT.format.lstrip(">"))


def read_multi(reader: Reader) -> list[Any]:
    results: list[Any] = []
    while True:
        kind, done, code = reader.int32(), reader.boolean(), reader.int32()
        if done:
            return results
        body: Any = None
        if kind == codes.CREATE:
            body = reader.text()
        elif kind == codes.CREATE2:
            body = (reader.text(), read_stat(reader))
        elif kind == codes.SET_DATA:
            body = read_stat(reader)
        elif kind == codes.GET_DATA:
            body = (reader.buffer(), read_stat(reader))
        elif kind == codes.GET_CHILDREN:
            body = sorted(reader.texts())
        elif kind == codes.ERROR:
            body = reader.int32()
        results.append((kind, code, body))
