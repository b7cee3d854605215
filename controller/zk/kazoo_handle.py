"""One ZooKeeper session over one kazoo client: pipelined requests, one-shot watches, no recipes.

kazoo drops its watches when the connection breaks and would open a new session by itself after an expiry. Neither is
wanted here: after a reconnect of the same session every watched path is read again and compared with what was last
seen (the Java client gets the same from the server), and after the session is lost this client never connects again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol import serialization
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent, ZnodeStat

from controller.zk.acl import acl_for
from controller.zk.handlers import Change, HandlerTable
from controller.zk.kazoo_log import KazooLog, ServerNews
from controller.zk.kazoo_threads import OneSessionThreads, TlsContext
from controller.zk.multi_read import MultiRead
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
from controller.zk.session import AuthenticationFailedError, ConnectTimeoutError, SessionExpiredError
from controller.zk.session_meters import SessionMeters

logger = logging.getLogger(__name__)

_CODES = {code.value: code for code in Code}
_CHANGES = {
    EventType.CREATED: Change.CREATED,
    EventType.DELETED: Change.DELETED,
    EventType.CHANGED: Change.CHANGED,
    EventType.CHILD: Change.CHILDREN,
}
# A waiter looks at the state of the handle this often, in case kazoo dropped its request without an answer.
_RECHECK_SECONDS = 1.0


class KazooHandle:
    """A session from its start to its end. Once `lost`, every request raises `SessionExpiredError`."""

    def __init__(
        self,
        hosts: str,
        chroot: str,
        *,
        session_timeout_ms: int,
        handlers: HandlerTable,
        on_lost: Callable[[KazooHandle], None],
        news: ServerNews,
        secure_acls: bool = False,
        tls: TlsContext | None = None,
        client_options: dict[str, Any] | None = None,
        meters: SessionMeters | None = None,
    ) -> None:
        self._meters = meters or SessionMeters()
        self._chroot = chroot
        self._handlers = handlers
        self._on_lost = on_lost
        self._secure_acls = secure_acls
        self._state_changed = threading.Condition()
        self._connected = False
        self._was_connected = False
        self._closing = False
        self.lost = False
        self.auth_failed = False
        self.session_id = 0
        # Whether the servers know multiRead (3.6 and newer); found out by the first one.
        self.reads_many = True
        # path -> (czxid, mzxid) or None if it did not exist; path -> pzxid. Written by readers, read on reconnect.
        self._seen_data: dict[str, tuple[int, int] | None] = {}
        self._seen_children: dict[str, int] = {}
        self._threads = OneSessionThreads(tls, news)
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            handler=self._threads,
            logger=KazooLog(news),
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0, "max_jitter": 0.2},
            **(client_options or {}),
        )
        self._client.add_listener(self._on_state)

    def start(self, timeout_ms: int) -> None:
        """Connect; raises `ConnectTimeoutError` or `AuthenticationFailedError`."""
        try:
            self._client.start(timeout=timeout_ms / 1000)
        except KazooTimeoutError:
            if self.auth_failed:
                raise AuthenticationFailedError from None
            cause = self._threads.tls_error
            text = f"Timed out waiting for connection to ZooKeeper after {timeout_ms} ms" + (
                f": {cause}" if cause else ""
            )
            raise ConnectTimeoutError(text) from None

    def close(self) -> None:
        """End the session if it still lives, and free threads and sockets. Not to be called from a callback."""
        self._closing = True
        try:
            self._client.stop()
        finally:
            self._client.close()
            with self._state_changed:
                self.lost = True
                self._state_changed.notify_all()

    @property
    def is_connected(self) -> bool:
        """Whether it has a connection at this moment."""
        return self._connected

    def wait_connected(self) -> None:
        """Block until the connection is there; raises if the session ended meanwhile."""
        with self._state_changed:
            while not self._connected:
                self._raise_if_over()
                self._state_changed.wait(_RECHECK_SECONDS)
            self._raise_if_over()

    def issue(self, request: Request) -> Any:
        """Put a request on the wire without waiting; hand what this returns to `await_response`."""
        client = self._client
        match request:
            case GetData(path):
                return client.get_async(self._full(path), watch=self._data_watch(path))
            case Exists(path):
                return client.exists_async(self._full(path), watch=self._data_watch(path))
            case GetChildren(path, watch):
                watcher = self._on_event if watch and self._handlers.watches_children(path) else None
                return client.get_children_async(self._full(path), watch=watcher, include_data=True)
            case Create(path, data, ephemeral, sequential):
                return client.create_async(
                    self._full(path), data, acl_for(path, self._secure_acls), ephemeral, sequential
                )
            case Delete(path, version):
                return client.delete_async(self._full(path), version)
            case SetData(path, data, version):
                return client.set_async(self._full(path), data, version)
            case Multi(ops):
                transaction = client.transaction()
                transaction.operations.extend(self._wire_op(op) for op in ops)
                return transaction.commit_async()
            case GetMany(paths):
                pending = self._threads.async_result()
                # kazoo's own entry for requests: every request of its public methods goes through it.
                client._call(MultiRead(tuple(self._full(path) for path in paths)), pending)
                return pending

    def await_response(self, request: Request, pending: Any) -> Response:
        """Wait for the answer. A request whose fate is unknown is answered with `CONNECTION_LOSS`."""
        while not pending.wait(_RECHECK_SECONDS):
            if self.lost and not pending.ready():
                raise SessionExpiredError
        try:
            return self._response(request, pending.get(block=False))
        except (kazoo_errors.SessionExpiredError, kazoo_errors.ConnectionClosedError):
            raise SessionExpiredError from None
        except kazoo_errors.AuthFailedError:
            raise AuthenticationFailedError from None
        except kazoo_errors.ConnectionLoss:
            return Response(Code.CONNECTION_LOSS)
        except kazoo_errors.ZookeeperError as error:
            return Response(_code_of(error))

    def forget(self, path: str) -> None:
        """Nobody has a handler for the path any more, so what was seen of it need not be compared when a connection
        comes back. Without this, every topic that there ever was would be kept."""
        if not self._handlers.watches_data(path):
            self._seen_data.pop(path, None)
        if not self._handlers.watches_children(path):
            self._seen_children.pop(path, None)

    def create_absolute(self, path: str) -> Code:
        """Create a persistent znode with null data outside of the chroot, and wait."""
        request = Create(path)
        pending = self._client.create_async(path, None, acl_for(path, self._secure_acls))
        return self.await_response(request, pending).code

    def _response(self, request: Request, value: Any) -> Response:
        match request:
            case GetData(path):
                data, stat = value
                if self._handlers.watches_data(path):
                    self._seen_data[path] = (stat.czxid, stat.mzxid)
                return Response(Code.OK, data=data, stat=_stat(stat))
            case Exists(path):
                if self._handlers.watches_data(path):
                    self._seen_data[path] = (value.czxid, value.mzxid) if value else None
                return Response(Code.OK, stat=_stat(value)) if value else Response(Code.NO_NODE)
            case GetChildren(path, watch):
                children, stat = value
                if watch and self._handlers.watches_children(path):
                    self._seen_children[path] = stat.pzxid
                return Response(Code.OK, children=children, stat=_stat(stat))
            case Create():
                return Response(Code.OK, path=self._relative(value))
            case Delete():
                return Response(Code.OK)
            case SetData():
                return Response(Code.OK, stat=_stat(value))
            case GetMany():
                return Response(Code.OK, results=tuple(_read_result(item) for item in value))
            case Multi():
                results = tuple(self._multi_result(item) for item in value)
                code = next((item.code for item in results if not item.ok), Code.OK)
                return Response(code, results=results)

    def _multi_result(self, item: Any) -> Response:
        if isinstance(item, Exception):
            return Response(_code_of(item))
        if isinstance(item, ZnodeStat):
            return Response(Code.OK, stat=_stat(item))
        if isinstance(item, str):
            return Response(Code.OK, path=self._relative(item))
        return Response(Code.OK)

    def _wire_op(self, op: WriteOp) -> Any:
        # kazoo's own transaction builder refuses null data, so the wire forms are made here.
        match op:
            case Create(path, data, ephemeral, sequential):
                flags = (1 if ephemeral else 0) | (2 if sequential else 0)
                return serialization.Create(self._full(path), data, acl_for(path, self._secure_acls), flags)
            case Delete(path, version):
                return serialization.Delete(self._full(path), version)
            case SetData(path, data, version):
                return serialization.SetData(self._full(path), data, version)
            case Check(path, version):
                return serialization.CheckVersion(self._full(path), version)

    def _data_watch(self, path: str) -> Callable[[WatchedEvent], None] | None:
        return self._on_event if self._handlers.watches_data(path) else None

    def _full(self, path: str) -> str:
        if not self._chroot:
            return path
        return self._chroot if path == "/" else self._chroot + path

    def _relative(self, path: str) -> str:
        return path[len(self._chroot) :] or "/"

    # -- called on kazoo's threads: nothing here waits -------------------------------------------------------------

    def _on_event(self, event: WatchedEvent) -> None:
        if event.path is None or self.lost:
            return
        change = _CHANGES.get(event.type)
        if change is not None:
            self._handlers.fire(change, self._relative(event.path))

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            reconnected = self._was_connected
            self._was_connected = True
            self.session_id = self._client.client_id[0]
            if reconnected:
                self._read_watched_paths_again()
            self._set_connected(True)
            self._meters.connects.mark()
        elif state == KazooState.SUSPENDED:
            logger.warning(
                "Connection to ZooKeeper at %s lost, session %#x may still be alive",
                self._threads.server,
                self.session_id,
            )
            self._set_connected(False)
            self._meters.disconnects.mark()
        elif not self._closing:
            self._threads.lost = True
            self.auth_failed = self._client.client_state == KeeperState.AUTH_FAILED
            (self._meters.auth_failures if self.auth_failed else self._meters.expires).mark()
            with self._state_changed:
                self.lost = True
                self._connected = False
                self._state_changed.notify_all()
            self._on_lost(self)

    def _set_connected(self, connected: bool) -> None:
        with self._state_changed:
            self._connected = connected
            self._state_changed.notify_all()

    def _read_watched_paths_again(self) -> None:
        for path in list(self._seen_data):
            if self._handlers.watches_data(path):
                pending = self._client.exists_async(self._full(path), watch=self._on_event)
                pending.rawlink(lambda result, path=path: self._compare_data(path, result))
            else:
                self._seen_data.pop(path, None)
        for path in list(self._seen_children):
            if self._handlers.watches_children(path):
                pending = self._client.get_children_async(self._full(path), watch=self._on_event, include_data=True)
                pending.rawlink(lambda result, path=path: self._compare_children(path, result))
            else:
                self._seen_children.pop(path, None)

    def _compare_data(self, path: str, result: Any) -> None:
        if not result.successful():
            return  # the connection broke again; the next reconnect tries again
        stat, before = result.value, self._seen_data.get(path)
        now = (stat.czxid, stat.mzxid) if stat else None
        if now == before:
            return
        self._seen_data[path] = now
        if now is None:
            self._handlers.fire(Change.DELETED, path)
        elif before is None:
            self._handlers.fire(Change.CREATED, path)
        else:
            self._handlers.fire(Change.CHANGED, path)

    def _compare_children(self, path: str, result: Any) -> None:
        if result.successful() and result.value[1].pzxid != self._seen_children.get(path):
            self._seen_children[path] = result.value[1].pzxid
            self._handlers.fire(Change.CHILDREN, path)

    def _raise_if_over(self) -> None:
        if self.auth_failed:
            raise AuthenticationFailedError
        if self.lost:
            raise SessionExpiredError


def _stat(stat: ZnodeStat) -> Stat:
    return Stat(stat.czxid, stat.mzxid, stat.ctime, stat.version, stat.ephemeralOwner, stat.cversion, stat.pzxid)


def _read_result(item: Any) -> Response:
    if isinstance(item, int):
        return Response(_CODES.get(item, Code.OTHER))
    data, stat = item
    return Response(Code.OK, data=data, stat=_stat(stat))


def _code_of(error: Exception) -> Code:
    if isinstance(error, kazoo_errors.ConnectionLoss):
        return Code.CONNECTION_LOSS
    return _CODES.get(int(getattr(error, "code", Code.OTHER) or 0), Code.OTHER)
