"""The state machine: a request and a moment in; answers, events and transactions out. No I/O, no threads, no time.

Whoever drives it sends the outgoing messages in their order, after the transactions before them are where they must be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from controller.zk.embedded import acls, codes, records
from controller.zk.embedded.codes import Refused
from controller.zk.embedded.prepare import Preparer
from controller.zk.embedded.reads import READS
from controller.zk.embedded.records import Acls, Answer, Close, ConnectAnswer, Event, Message, Request
from controller.zk.embedded.sessions import Sessions
from controller.zk.embedded.state import Connection, State
from controller.zk.embedded.transactions import (
    Change,
    CloseSessionTxn,
    CreateSessionTxn,
    ErrorTxn,
    MultiTxn,
    Transaction,
)
from controller.zk.embedded.tree import Result, Tree


class Moment(NamedTuple):
    """What the clocks say: the one for stats, the one for deadlines."""

    wall_ms: int
    monotonic_ms: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in milliseconds, as in ZooKeeper's configuration."""

    min_session_timeout: int = 1_000
    max_session_timeout: int = 60_000
    # How often containers and nodes with a time to live are looked at.
    reap_interval: int = 60_000
    # A container that never had a child stays this long; 0: for ever.
    container_never_used: int = 0
    # Where ZooKeeper goes on until its heap is full. At `max_nodes` a create is answered with QUOTA_EXCEEDED; at
    # `max_watches` a read with a new watch is answered with THROTTLED, and a connection that brings its watches back is
    # closed; at `max_sessions` a connection that wants a further one is closed.
    max_nodes: int = 2_000_000
    max_watches: int = 1_000_000
    max_sessions: int = 100_000
    # Of one connection; a further one fails like a wrong one.
    max_identities: int = 100


@dataclass(slots=True)
class Effects:
    """What a step brought about, each list in its order."""

    transactions: list[Transaction] = field(default_factory=list)
    outgoing: list[tuple[Connection, Message]] = field(default_factory=list)


class Machine(State):
    """One server."""

    def __init__(
        self, sessions: Sessions, limits: Limits | None = None, tree: Tree | None = None, zxid: int = 0
    ) -> None:
        self.limits = limits or Limits()
        super().__init__(sessions, tree or Tree(), zxid, self.limits.max_watches)
        # The connection of each session that has one.
        self.attached: dict[int, Connection] = {}
        self._reap_at: int | None = None
        self._effects = Effects()

    # -- what happens to the server

    def connect(self, connection: Connection, request: records.ConnectRequest, now: Moment) -> Effects:
        """The first request of a connection: a new session, or an old one that goes on here."""
        if request.last_zxid_seen > self.zxid:
            # It has seen a state that is not ours.
            self._close(connection)
            return self._take()
        limits = self.limits
        timeout = min(max(request.timeout_ms, limits.min_session_timeout), limits.max_session_timeout)
        session_id = request.session_id
        if session_id == 0 and len(self.sessions.live) >= limits.max_sessions:
            self._close(connection)
            return self._take()
        if session_id == 0:
            session_id = self.sessions.new_id()
            self._commit(session_id, CreateSessionTxn(timeout), now)
            self._attach(connection, session_id, timeout, request)
            return self._take()
        before = self.attached.get(session_id)
        if before is not None:
            self._close(before)
        session = self.sessions.live.get(session_id)
        if session is None or not self.sessions.is_password(session_id, request.password):
            self._send(connection, ConnectAnswer(0, 0, bytes(16), request.knows_read_only))
            self._close(connection)
            return self._take()
        session.timeout_ms = timeout
        self.sessions.touch(session, now.monotonic_ms)
        self._attach(connection, session_id, timeout, request)
        return self._take()

    def handle(self, connection: Connection, xid: int, kind: int, request: Request | None, now: Moment) -> Effects:
        """Any further request; None is one of a type that does not exist."""
        session = self.sessions.live.get(connection.session_id)
        if session is None or not connection.is_open:
            # What was in flight when the session ended.
            return self._take()
        self.sessions.touch(session, now.monotonic_ms)
        read = READS.get(kind)
        if request is None:
            self._send(connection, Answer(xid, self.zxid, codes.UNIMPLEMENTED))
            self._close(connection)
        elif isinstance(request, records.Malformed):
            if kind == codes.MULTI:
                # It has its zxid before it is read.
                self._commit(connection.session_id, ErrorTxn(codes.MARSHALLING_ERROR), now)
            self._send(connection, Answer(xid, self.zxid, codes.MARSHALLING_ERROR))
        elif read is not None:
            try:
                body = read(self, connection, request)
            except Refused as refusal:
                self._send(connection, Answer(xid, self.zxid, refusal.code))
            else:
                self._send(connection, Answer(xid, self.zxid, codes.OK, body))
        else:
            _OTHERS[kind](self, connection, xid, request, now)
        return self._take()

    def disconnect(self, connection: Connection) -> None:
        """Its socket has gone; the session stays until its time is over."""
        connection.is_open = False
        self.data_watches.remove_watcher(connection)
        self.child_watches.remove_watcher(connection)
        if self.attached.get(connection.session_id) is connection:
            del self.attached[connection.session_id]

    def advance(self, now: Moment) -> Effects:
        """End sessions whose time is over; take away containers and nodes that have lived their time."""
        for session_id in self.sessions.expired(now.monotonic_ms):
            self.end_session(session_id, now)
        if self._reap_at is None:
            self._reap_at = now.monotonic_ms + self.limits.reap_interval
        elif now.monotonic_ms >= self._reap_at:
            self._reap_at = now.monotonic_ms + self.limits.reap_interval
            for path in self.tree.reapable(now.wall_ms, self.limits.container_never_used):
                change = Preparer(self.tree, 0, (), 0).delete_container(records.DeleteContainer(path))
                self._commit(0, change, now)
        return self._take()

    def next_deadline_ms(self) -> int | None:
        """When `advance` has something to do, by the monotonic clock; None if nothing is to be waited for."""
        deadlines = [self.sessions.next_deadline_ms(), self._reap_at if self.tree.mortal else None]
        return min((each for each in deadlines if each is not None), default=None)

    def end_session(self, session_id: int, now: Moment) -> None:
        """As if its time were over. What comes of it is in the effects of the next step."""
        self._commit(session_id, CloseSessionTxn(), now)
        connection = self.attached.get(session_id)
        if connection is not None:
            self._close(connection)

    def replay(self, transaction: Transaction, monotonic_ms: int) -> None:
        """Do again what a log has; nobody is connected yet."""
        self._apply(transaction, monotonic_ms)

    # -- requests that are not reads

    def _write(self, connection: Connection, xid: int, request: Any, now: Moment) -> None:
        preparer = Preparer(self.tree, connection.session_id, connection.identities, self.limits.max_nodes)
        if isinstance(request, records.Multi):
            results = self._commit(connection.session_id, preparer.multi(request.ops), now)
            self._send(connection, Answer(xid, self.zxid, codes.OK, records.MultiResult(list(results))))
            return
        try:
            change = preparer.single(request)
        except Refused as refusal:
            # An error uses up a zxid too.
            self._commit(connection.session_id, ErrorTxn(refusal.code), now)
            self._send(connection, Answer(xid, self.zxid, refusal.code))
            return
        result = self._commit(connection.session_id, change, now)[0]
        if isinstance(result, records.Deleted | records.Checked):
            self._send(connection, Answer(xid, self.zxid))
        else:
            self._send(connection, Answer(xid, self.zxid, codes.OK, result))

    def _ping(self, connection: Connection, xid: int, request: Any, now: Moment) -> None:
        self._send(connection, Answer(codes.PING_XID, self.zxid))

    def _refuse_reconfig(self, connection: Connection, xid: int, request: Any, now: Moment) -> None:
        self._commit(connection.session_id, ErrorTxn(codes.RECONFIG_DISABLED), now)
        self._send(connection, Answer(xid, self.zxid, codes.RECONFIG_DISABLED))

    def _authenticate(self, connection: Connection, xid: int, request: records.Auth, now: Moment) -> None:
        identity = acls.authenticate(request.scheme, request.data, connection.address)
        if identity is None:
            self._send(connection, Answer(xid, 0, codes.AUTH_FAILED))
            self._close(connection)
            return
        if identity not in connection.identities:
            if len(connection.identities) >= self.limits.max_identities:
                self._send(connection, Answer(xid, 0, codes.AUTH_FAILED))
                self._close(connection)
                return
            connection.identities.append(identity)
        self._send(connection, Answer(xid, 0))

    def _answer_token(self, connection: Connection, xid: int, request: Any, now: Moment) -> None:
        self._send(connection, Answer(xid, 0, codes.OK, records.NullToken()))

    def _set_watches(self, connection: Connection, xid: int, request: records.SetWatches, now: Moment) -> None:
        """What changed while the client was away is told at once, the rest is watched again."""
        nodes = self.tree.nodes
        if self.watch_count + request.how_many() > self.max_watches:
            # With a part of its watches it would wait for events that never come.
            self._close(connection)
            return

        def tell(kind: int, path: str) -> None:
            self._send(connection, Event(-1, kind, path))

        for path in request.data:
            node = nodes.get(path)
            if node is None:
                tell(codes.NODE_DELETED, path)
            elif node.mzxid > request.zxid:
                tell(codes.NODE_DATA_CHANGED, path)
            else:
                self.data_watches.add(path, connection)
        for path in request.exist:
            if path in nodes:
                tell(codes.NODE_CREATED, path)
            else:
                self.data_watches.add(path, connection)
        for path in request.children:
            node = nodes.get(path)
            if node is None:
                tell(codes.NODE_DELETED, path)
            elif node.pzxid > request.zxid:
                tell(codes.NODE_CHILDREN_CHANGED, path)
            else:
                self.child_watches.add(path, connection)
        for path in request.persistent:
            self.watch_always(connection, path, recursive=False)
        for path in request.recursive:
            self.watch_always(connection, path, recursive=True)
        self._send(connection, Answer(xid, self.zxid))

    def _close_session(self, connection: Connection, xid: int, request: Any, now: Moment) -> None:
        self._commit(connection.session_id, CloseSessionTxn(), now)
        self._send(connection, Answer(xid, self.zxid))
        self._close(connection)

    # -- how changes come about

    def _commit(self, session_id: int, change: Change, now: Moment) -> list[Result]:
        transaction = Transaction(self.zxid + 1, session_id, now.wall_ms, change)
        self._effects.transactions.append(transaction)
        return self._apply(transaction, now.monotonic_ms)

    def _apply(self, transaction: Transaction, monotonic_ms: int) -> list[Result]:
        self.zxid = zxid = transaction.zxid
        change = transaction.change

        def on_event(kind: int, path: str, acl: Acls) -> None:
            self._trigger(kind, path, acl, zxid)

        if isinstance(change, MultiTxn):
            return [self.tree.apply(part, transaction, on_event) for part in change.parts]
        if isinstance(change, CreateSessionTxn):
            self.sessions.add(transaction.session_id, change.timeout_ms, monotonic_ms)
            return []
        if isinstance(change, CloseSessionTxn):
            self.sessions.remove(transaction.session_id)
            self.tree.end_session(transaction.session_id, zxid, on_event)
            return []
        return [self.tree.apply(change, transaction, on_event)]

    def _trigger(self, kind: int, path: str, acl: Acls, zxid: int) -> None:
        if kind == codes.NODE_CHILDREN_CHANGED:
            watchers = self.child_watches.trigger(path)
        else:
            watchers = self.data_watches.trigger(path)
            if kind == codes.NODE_DELETED:
                # Who watches its children hears of the end too, but once.
                told = set(watchers)
                watchers += [each for each in self.child_watches.trigger(path) if each not in told]
        if watchers:
            event = Event(zxid, kind, path)
            for watcher in watchers:
                if acls.allows(acl, codes.READ, watcher.identities):
                    self._send(watcher, event)

    # -- connections

    def _attach(
        self, connection: Connection, session_id: int, timeout_ms: int, request: records.ConnectRequest
    ) -> None:
        connection.session_id = session_id
        self.attached[session_id] = connection
        password = self.sessions.password(session_id)
        self._send(connection, ConnectAnswer(timeout_ms, session_id, password, request.knows_read_only))

    def _send(self, connection: Connection, message: Message) -> None:
        self._effects.outgoing.append((connection, message))

    def _close(self, connection: Connection) -> None:
        if connection.is_open:
            self._send(connection, Close())
            self.disconnect(connection)

    def _take(self) -> Effects:
        effects = self._effects
        if effects.outgoing or effects.transactions:
            self._effects = Effects()
        return effects


_OTHERS: dict[int, Callable[[Machine, Connection, int, Any, Moment], None]] = {
    codes.CREATE: Machine._write,
    codes.CREATE2: Machine._write,
    codes.CREATE_CONTAINER: Machine._write,
    codes.CREATE_TTL: Machine._write,
    codes.DELETE: Machine._write,
    codes.DELETE_CONTAINER: Machine._write,
    codes.SET_DATA: Machine._write,
    codes.SET_ACL: Machine._write,
    codes.CHECK: Machine._write,
    codes.MULTI: Machine._write,
    codes.PING: Machine._ping,
    codes.RECONFIG: Machine._refuse_reconfig,
    codes.AUTH: Machine._authenticate,
    codes.SASL: Machine._answer_token,
    codes.SET_WATCHES: Machine._set_watches,
    codes.SET_WATCHES2: Machine._set_watches,
    codes.CLOSE_SESSION: Machine._close_session,
}
