"""A model of ZooKeeper in this process: deterministic, one step at a time, with faults on demand.

It answers the same requests as the real server (a test compares both on random operations). Watch events are queued
per session and handed over by `deliver`, so whoever drives the simulation decides when they arrive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.zk.handlers import Change, HandlerTable
from controller.zk.ops import (
    Check,
    Code,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    GetMany,
    Multi,
    Request,
    Response,
    SetData,
    Stat,
    WriteOp,
)
from controller.zk.session import ChildHandler, DataHandler, SessionExpiredError, SessionHandler

if TYPE_CHECKING:
    from timer.clock import Clock


@dataclass(slots=True)
class _Node:
    data: bytes | None
    czxid: int
    mzxid: int
    ctime: int
    owner: int
    version: int = 0
    cversion: int = 0
    pzxid: int = 0
    created_children: int = 0
    children: set[str] = field(default_factory=set)

    def stat(self) -> Stat:
        return Stat(self.czxid, self.mzxid, self.ctime, self.version, self.owner, self.cversion, self.pzxid)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


class ZooKeeperModel:
    """The server: one tree, sessions, one-shot watches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._zxid = 0
        self._next_session = 0x1000
        self.nodes: dict[str, _Node] = {"/": _Node(b"", 0, 0, 0, 0)}
        self._sessions: dict[int, ModelSession] = {}
        self._data_watches: dict[str, set[int]] = {}
        self._child_watches: dict[str, set[int]] = {}
        # Every write that was applied, for invariants: (session, operation).
        self.writes: list[tuple[int, WriteOp]] = []

    def open(self, session: ModelSession) -> int:
        self._next_session += 1
        self._sessions[self._next_session] = session
        return self._next_session

    def expire(self, session_id: int) -> None:
        """End a session: its ephemeral znodes and watches go."""
        if self._sessions.pop(session_id, None) is None:
            return
        for watches in (*self._data_watches.values(), *self._child_watches.values()):
            watches.discard(session_id)
        for path in sorted(path for path, node in self.nodes.items() if node.owner == session_id):
            self._zxid += 1
            self._fire(self._delete(path))

    def is_open(self, session_id: int) -> bool:
        return session_id in self._sessions

    def apply(self, session_id: int, request: Request, *, watch: bool) -> Response:
        """Answer one request of an open session."""
        match request:
            case GetData(path):
                node = self.nodes.get(path)
                if node is None:
                    return Response(Code.NO_NODE)
                self._arm(self._data_watches, path, session_id, watch)
                return Response(Code.OK, data=node.data, stat=node.stat())
            case GetMany(paths):
                found = [self.apply(session_id, GetData(path), watch=False) for path in paths]
                return Response(Code.OK, results=tuple(found))
            case Exists(path):
                node = self.nodes.get(path)
                self._arm(self._data_watches, path, session_id, watch)
                return Response(Code.NO_NODE) if node is None else Response(Code.OK, stat=node.stat())
            case GetChildren(path):
                node = self.nodes.get(path)
                if node is None:
                    return Response(Code.NO_NODE)
                self._arm(self._child_watches, path, session_id, watch)
                return Response(Code.OK, children=sorted(node.children), stat=node.stat())
            case Multi(ops):
                return self._multi(session_id, ops)
            case _:
                answer = self._multi(session_id, (request,))
                return answer.results[0] if answer.ok else Response(answer.code)

    def _multi(self, session_id: int, ops: Sequence[WriteOp]) -> Response:
        before = {path: _copy(node) for path, node in self.nodes.items()} if len(ops) > 1 else None
        self._zxid += 1
        results: list[Response] = []
        events: list[tuple[Change, str]] = []
        for op in ops:
            result, caused = self._write(session_id, op)
            if not result.ok:
                if before is not None:
                    self.nodes = before
                failed = [Response(Code.OK)] * len(results) + [Response(result.code)]
                rest = [Response(Code.RUNTIME_INCONSISTENCY)] * (len(ops) - len(failed))
                return Response(result.code, results=(*failed, *rest))
            results.append(result)
            events.extend(caused)
        self.writes.extend((session_id, op) for op in ops if not isinstance(op, Check))
        self._fire(events)
        return Response(Code.OK, results=tuple(results))

    def _write(self, session_id: int, op: WriteOp) -> tuple[Response, list[tuple[Change, str]]]:
        if isinstance(op, Create):
            return self._create(session_id, op)
        node = self.nodes.get(op.path)
        if node is None:
            return Response(Code.NO_NODE), []
        if op.version not in (-1, node.version):
            return Response(Code.BAD_VERSION), []
        match op:
            case SetData(path, data):
                node.data, node.mzxid, node.version = data, self._zxid, node.version + 1
                return Response(Code.OK, stat=node.stat()), [(Change.CHANGED, path)]
            case Delete(path):
                if node.children:
                    return Response(Code.NOT_EMPTY), []
                return Response(Code.OK), self._delete(path)
            case _:
                return Response(Code.OK), []

    def _create(self, session_id: int, op: Create) -> tuple[Response, list[tuple[Change, str]]]:
        parent = self.nodes.get(_parent(op.path))
        if parent is None:
            return Response(Code.NO_NODE), []
        if parent.owner:
            return Response(Code.NO_CHILDREN_FOR_EPHEMERALS), []
        path = f"{op.path}{parent.created_children:010d}" if op.sequential else op.path
        if path in self.nodes:
            return Response(Code.NODE_EXISTS), []
        owner = session_id if op.ephemeral else 0
        self.nodes[path] = _Node(op.data, self._zxid, self._zxid, self._clock.wall_ms(), owner, pzxid=self._zxid)
        parent.children.add(path.rpartition("/")[2])
        parent.created_children += 1
        parent.cversion += 1
        parent.pzxid = self._zxid
        return Response(Code.OK, path=path), [(Change.CREATED, path), (Change.CHILDREN, _parent(path))]

    def _delete(self, path: str) -> list[tuple[Change, str]]:
        del self.nodes[path]
        parent = self.nodes[_parent(path)]
        parent.children.discard(path.rpartition("/")[2])
        parent.cversion += 1
        parent.pzxid = self._zxid
        return [(Change.DELETED, path), (Change.CHILDREN, _parent(path))]

    def _arm(self, watches: dict[str, set[int]], path: str, session_id: int, watch: bool) -> None:
        if watch:
            watches.setdefault(path, set()).add(session_id)

    def _fire(self, events: Sequence[tuple[Change, str]]) -> None:
        for change, path in events:
            watches = self._child_watches if change is Change.CHILDREN else self._data_watches
            for session_id in sorted(watches.pop(path, ())):
                self._sessions[session_id].events.append((change, path))


def _copy(node: _Node) -> _Node:
    return _Node(
        node.data,
        node.czxid,
        node.mzxid,
        node.ctime,
        node.owner,
        node.version,
        node.cversion,
        node.pzxid,
        node.created_children,
        set(node.children),
    )


def _no_fault() -> bool:
    return False


class ModelSession:
    """A `Session` on the model. Not for threads.

    A request on a lost session raises; a request while cut off from the server raises too, after the server gave the
    session up: a real client would block for that long, and in one process there is nobody else to run meanwhile.
    """

    def __init__(self, server: ZooKeeperModel, loses_answer: Callable[[], bool] = _no_fault) -> None:
        """`loses_answer` is asked for each request: True applies it twice, as a client that never saw the answer."""
        self._server = server
        self._loses_answer = loses_answer
        self._handlers = HandlerTable()
        self.events: deque[tuple[Change, str]] = deque()
        self._session_id = server.open(self)
        self.cut_off = False
        self._closed = False

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def expired(self) -> bool:
        return not self._server.is_open(self._session_id)

    def waited_ns(self) -> int:
        return 0

    def submit(self, requests: Sequence[Request]) -> list[Response]:
        answers: list[Response] = []
        for request in requests:
            if self.cut_off:
                self._server.expire(self._session_id)
            if self._closed or self.expired:
                raise SessionExpiredError
            if self._loses_answer():
                self._apply(request)
            answers.append(self._apply(request))
        return answers

    def deliver(self) -> bool:
        """Hand over the oldest watch event; False if there is none (or it cannot arrive now)."""
        if not self.events or self.cut_off:
            return False
        self._handlers.fire(*self.events.popleft())
        return True

    def renew(self) -> None:
        """What the client's own thread does after an expiry: hooks around a new session."""
        self._handlers.before_new_session()
        self.events.clear()
        self._session_id = self._server.open(self)
        self._handlers.after_new_session()

    def register_data_handler(self, handler: DataHandler) -> None:
        self._handlers.register_data(handler)

    def unregister_data_handler(self, path: str) -> None:
        self._handlers.unregister_data(path)

    def register_child_handler(self, handler: ChildHandler) -> None:
        self._handlers.register_child(handler)

    def unregister_child_handler(self, path: str) -> None:
        self._handlers.unregister_child(path)

    def register_session_handler(self, handler: SessionHandler) -> None:
        self._handlers.register_session(handler)

    def unregister_session_handler(self, name: str) -> None:
        self._handlers.unregister_session(name)

    def close(self) -> None:
        self._closed = True
        self._server.expire(self._session_id)

    def _apply(self, request: Request) -> Response:
        watch = (
            self._handlers.watches_children(request.path) and request.watch
            if isinstance(request, GetChildren)
            else isinstance(request, GetData | Exists) and self._handlers.watches_data(request.path)
        )
        return self._server.apply(self._session_id, request, watch=watch)
