"""ZooKeeper in this process: the embedded server's state machine, one step at a time, with faults on demand.

Watch events are queued per session and handed over by `deliver`, so whoever drives the simulation decides when they
arrive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from controller.zk import ops
from controller.zk.embedded import acls, codes, records
from controller.zk.embedded.machine import Effects, Machine, Moment
from controller.zk.embedded.sessions import Sessions
from controller.zk.embedded.state import Connection
from controller.zk.embedded.tree import Node, Tree
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
    WriteOp,
)
from controller.zk.session import ChildHandler, DataHandler, SessionExpiredError, SessionHandler

if TYPE_CHECKING:
    from timer.clock import Clock

_CHANGES = {
    codes.NODE_CREATED: Change.CREATED,
    codes.NODE_DELETED: Change.DELETED,
    codes.NODE_DATA_CHANGED: Change.CHANGED,
    codes.NODE_CHILDREN_CHANGED: Change.CHILDREN,
}
# Sessions end when the simulation says so.
_TIMEOUT_MS = 60_000


class ZooKeeperModel:
    """The server: the machine, and a connection for each session."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        tree = Tree()
        # As in a chroot: nothing there at first.
        for path in ("/zookeeper/config", "/zookeeper/quota", "/zookeeper"):
            tree.delete(path, 0)
        self._machine = Machine(Sessions(0x1000, b"simulation"), tree=tree)
        self._connections: dict[int, Connection] = {}
        self._listeners: dict[Connection, ModelSession] = {}
        # Every write that was applied, for invariants: (session, operation).
        self.writes: list[tuple[int, WriteOp]] = []
        # Who acts as session 0: an operator.
        self._connections[0] = self._connect()

    @property
    def nodes(self) -> dict[str, Node]:
        return self._machine.tree.nodes

    def open(self, session: ModelSession) -> int:
        connection = self._connect()
        self._connections[connection.session_id] = connection
        self._listeners[connection] = session
        return connection.session_id

    def expire(self, session_id: int) -> None:
        """End a session: its ephemeral znodes and watches go."""
        connection = self._connections.pop(session_id, None)
        if connection is None:
            return
        del self._listeners[connection]
        self._carry_out(self._machine.handle(connection, 0, codes.CLOSE_SESSION, records.Nothing(), self._now()))

    def is_open(self, session_id: int) -> bool:
        return session_id in self._connections

    def apply(self, session_id: int, request: Request, *, watch: bool) -> Response:
        """Answer one request of an open session."""
        connection = self._connections[session_id]
        kind, translated = _translated(request, watch)
        answer = self._carry_out(self._machine.handle(connection, 0, kind, translated, self._now()))
        response = _response(answer, request)
        if response.ok:
            if isinstance(request, Multi):
                self.writes.extend((session_id, op) for op in request.ops if not isinstance(op, Check))
            elif isinstance(request, Create | Delete | SetData):
                self.writes.append((session_id, request))
        return response

    def _connect(self) -> Connection:
        connection = Connection()
        self._carry_out(self._machine.connect(connection, records.ConnectRequest(0, _TIMEOUT_MS, 0, b""), self._now()))
        return connection

    def _now(self) -> Moment:
        return Moment(self._clock.wall_ms(), 0)

    def _carry_out(self, effects: Effects) -> records.Answer:
        """Events to their sessions; the answer, if there is one."""
        found = records.Answer(0, 0)
        for connection, message in effects.outgoing:
            if isinstance(message, records.Event):
                listener = self._listeners.get(connection)
                if listener is not None:
                    listener.events.append((_CHANGES[message.type], message.path))
            elif isinstance(message, records.Answer):
                found = message
        return found


def _translated(request: Request, watch: bool) -> tuple[int, records.Request]:
    match request:
        case GetData(path):
            return codes.GET_DATA, records.Read(path, watch)
        case Exists(path):
            return codes.EXISTS, records.Read(path, watch)
        case GetChildren(path):
            return codes.GET_CHILDREN2, records.Read(path, watch)
        case GetMany(paths):
            return codes.MULTI_READ, records.MultiRead([(codes.GET_DATA, records.Read(path)) for path in paths])
        case Multi(operations):
            return codes.MULTI, records.Multi([_write(op)[1] for op in operations])
        case _:
            return _write(request)


def _write(op: WriteOp) -> tuple[int, Any]:
    match op:
        case Create(path, data, ephemeral, sequential):
            flags = (1 if ephemeral else 0) + (2 if sequential else 0)
            return codes.CREATE, records.Create(codes.CREATE, path, data, acls.OPEN, flags)
        case Delete(path, version):
            return codes.DELETE, records.Delete(path, version)
        case SetData(path, data, version):
            return codes.SET_DATA, records.SetData(path, data, version)
        case Check(path, version):
            return codes.CHECK, records.Check(path, version)


def _stat(stat: records.Stat) -> ops.Stat:
    owner, cversion = stat.ephemeral_owner, stat.cversion
    return ops.Stat(stat.czxid, stat.mzxid, stat.ctime, stat.version, owner, cversion, stat.pzxid)


def _response(answer: records.Answer, request: Request) -> Response:
    if answer.code:
        return Response(Code(answer.code))
    if isinstance(answer.body, records.MultiResult):
        results = tuple(map(_result, answer.body.results))
        failed = (each.code for each in results if not each.ok and each.code is not Code.RUNTIME_INCONSISTENCY)
        return Response(next(failed, Code.OK) if isinstance(request, Multi) else Code.OK, results=results)
    return _result(answer.body)


def _result(body: Any) -> Response:
    match body:
        case records.Failed(code):
            return Response(Code(code))
        case records.Created(path, _):
            return Response(Code.OK, path=path)
        case records.Stated(stat):
            return Response(Code.OK, stat=_stat(stat))
        case records.Data(data, stat):
            return Response(Code.OK, data=data, stat=_stat(stat))
        case records.Children(names, stat):
            return Response(Code.OK, children=sorted(names), stat=None if stat is None else _stat(stat))
        case _:
            return Response(Code.OK)


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
