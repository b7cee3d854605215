"""The succession of ZooKeeper sessions of one process, each over a client of its own.

On expiry a thread of its own runs the before-new-session handlers, discards the client, opens a new session (again
and again until it works) and runs the after-new-session handlers. A request belongs to one session: it either
completes in it or raises.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from controller.zk.handlers import HandlerTable
from controller.zk.kazoo_handle import KazooHandle
from controller.zk.kazoo_log import ServerNews
from controller.zk.kazoo_threads import TlsContext
from controller.zk.ops import Code, Exists, GetData, GetMany, Request, Response
from controller.zk.session import (
    AuthenticationFailedError,
    ChildHandler,
    ConnectTimeoutError,
    DataHandler,
    SessionExpiredError,
    SessionHandler,
    ZkError,
)
from controller.zk.session_meters import SessionMeters
from timer.clock import SystemClock
from timer.worker import Worker, Workers

if TYPE_CHECKING:
    from timer.clock import Clock
    from timer.metrics import Histogram, Metrics

logger = logging.getLogger(__name__)

_NEW_SESSION_RETRY_MS = 1_000
# Reads without watch in one request. A partition's state is a hundred bytes, a topic of 1,000 partitions 20 KB.
_READS_TOGETHER = 128
_UNKNOWN = Response(Code.OTHER)


class _Waited(threading.local):
    """Of each thread: the time in `submit`."""

    ns = 0


def split_connect_string(connect: str) -> tuple[str, str]:
    """`h1:p1,h2:p2/chroot` as hosts and chroot; the chroot is empty or starts with `/` and has no trailing one."""
    hosts, slash, chroot = connect.partition("/")
    return hosts, (slash + chroot).rstrip("/")


class KazooSession:
    """The real `Session`. Thread-safe; handlers are called on kazoo's watch thread."""

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 18000,
        connection_timeout_ms: int | None = None,
        max_in_flight: int = 10,
        secure_acls: bool = False,
        tls: TlsContext | None = None,
        client_options: dict[str, Any] | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        workers: Workers | None = None,
    ) -> None:
        """`connect` as in `zookeeper.connect`. `client_options` go to kazoo (SASL); `tls` is asked for the
        context of each connection, which is in plain text without it.

        `max_in_flight` bounds the requests on the wire; a submitter waits at the bound. Without a `clock` neither
        latencies nor waits are measured.
        """
        if max_in_flight < 1:
            raise ValueError("zookeeper.max.in.flight.requests must be at least 1")
        self._hosts, self._chroot = split_connect_string(connect)
        self._session_timeout_ms = session_timeout_ms
        self._connection_timeout_ms = session_timeout_ms if connection_timeout_ms is None else connection_timeout_ms
        self._permits = threading.BoundedSemaphore(max_in_flight)
        self._secure_acls = secure_acls
        self._tls = tls
        self._client_options = client_options
        self._clock = clock
        self._news = ServerNews(clock or SystemClock())
        self._latency: Histogram | None = None
        if metrics is not None:
            self._latency = metrics.histogram("kafka.server", "ZooKeeperClientMetrics", "ZooKeeperRequestLatencyMs")
        self._meters = SessionMeters() if metrics is None else SessionMeters(metrics)
        self._waited = _Waited()
        self._handlers = HandlerTable()
        self._lock = threading.Condition()
        self._handle: KazooHandle | None = None
        self._closed = threading.Event()
        self._lost: list[KazooHandle] = []
        self._between_sessions = False
        self._renewer = Worker("zk-session-expiry-handler", self._renew, clock or SystemClock(), workers=workers)

    def start(self) -> None:
        """Open the first session, creating a missing chroot. Raises `ConnectTimeoutError`."""
        handle = self._open_handle()
        try:
            self._ensure_chroot(handle)
        except BaseException:
            handle.close()
            raise
        with self._lock:
            self._handle = handle
        self._renewer.start()

    @property
    def session_id(self) -> int:
        handle = self._handle
        return handle.session_id if handle else 0

    @property
    def is_connected(self) -> bool:
        """Whether there is a session and it has a connection at this moment."""
        handle = self._handle
        return handle is not None and handle.is_connected

    def waited_ns(self) -> int:
        return self._waited.ns

    def submit(self, requests: Sequence[Request]) -> list[Response]:
        if self._clock is None:
            return self._submit(requests)
        began_ns = self._clock.monotonic_ns()
        try:
            return self._submit(requests)
        finally:
            self._waited.ns += self._clock.monotonic_ns() - began_ns

    def _submit(self, requests: Sequence[Request]) -> list[Response]:
        handle = self._current_handle()
        answers: dict[int, Response] = {}
        waiting = list(range(len(requests)))
        while waiting:
            handle.wait_connected()
            interrupted: list[int] = []
            parcels = list(self._parcels(handle, requests, waiting))
            for parcel, response in zip(parcels, self._pipeline(handle, [item[0] for item in parcels]), strict=True):
                indexes = parcel[1]
                if response.code is Code.UNIMPLEMENTED and isinstance(parcel[0], GetMany):
                    handle.reads_many = False
                    interrupted.extend(indexes)
                elif response.code is Code.CONNECTION_LOSS:
                    interrupted.extend(indexes)
                elif isinstance(parcel[0], GetMany):
                    answers.update(zip(indexes, response.results, strict=True))
                else:
                    answers[indexes[0]] = response
            waiting = interrupted
        return [answers[index] for index in range(len(requests))]

    def _parcels(
        self, handle: KazooHandle, requests: Sequence[Request], indexes: Sequence[int]
    ) -> Iterator[tuple[Request, list[int]]]:
        """What goes on the wire for these requests: neighbouring reads without watch travel together."""
        paths: list[str] = []
        members: list[int] = []

        def flush() -> Iterator[tuple[Request, list[int]]]:
            if len(members) == 1:
                yield requests[members[0]], list(members)
            elif members:
                yield GetMany(tuple(paths)), list(members)
            paths.clear()
            members.clear()

        for index in indexes:
            request = requests[index]
            if isinstance(request, GetData) and handle.reads_many and not self._handlers.watches_data(request.path):
                paths.append(request.path)
                members.append(index)
                if len(members) == _READS_TOGETHER:
                    yield from flush()
            else:
                yield from flush()
                yield request, [index]
        yield from flush()

    def register_data_handler(self, handler: DataHandler) -> None:
        self._handlers.register_data(handler)

    def unregister_data_handler(self, path: str) -> None:
        self._handlers.unregister_data(path)
        self._forget(path)

    def register_child_handler(self, handler: ChildHandler) -> None:
        self._handlers.register_child(handler)

    def unregister_child_handler(self, path: str) -> None:
        self._handlers.unregister_child(path)
        self._forget(path)

    def _forget(self, path: str) -> None:
        handle = self._handle
        if handle is not None:
            handle.forget(path)

    def register_session_handler(self, handler: SessionHandler) -> None:
        self._handlers.register_session(handler)

    def unregister_session_handler(self, name: str) -> None:
        self._handlers.unregister_session(name)

    def close(self) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            handle, self._handle = self._handle, None
            self._lock.notify_all()
        if handle is not None:
            handle.close()
        self._renewer.stop(self._connection_timeout_ms)

    def _pipeline(self, handle: KazooHandle, requests: Sequence[Request]) -> list[Response]:
        """Keep up to the allowed number of requests on the wire, reading answers in order.

        A submitter that finds no free permit first takes in its own oldest answer, so two submitters that hold all
        permits between them cannot wait for each other.
        """
        done: list[Response] = []
        on_wire: list[tuple[Any, int]] = []

        def take_oldest() -> None:
            position = len(done)
            pending, sent_ns = on_wire[position]
            done.append(_UNKNOWN)  # its permit is given back whatever comes
            try:
                done[position] = handle.await_response(requests[position], pending)
            finally:
                self._permits.release()
            if self._latency is not None and self._clock is not None:
                self._latency.update((self._clock.monotonic_ns() - sent_ns) / 1e6)

        try:
            for request in requests:
                while not self._permits.acquire(blocking=len(done) == len(on_wire)):
                    take_oldest()
                sent_ns = self._clock.monotonic_ns() if self._clock is not None else 0
                try:
                    on_wire.append((handle.issue(request), sent_ns))
                except BaseException:
                    self._permits.release()
                    raise
            while len(done) < len(on_wire):
                take_oldest()
        finally:
            for _ in range(len(on_wire) - len(done)):
                self._permits.release()
        return done

    def _current_handle(self) -> KazooHandle:
        """The live handle; while a new session is being made, wait for it as long as a first connect may take."""
        with self._lock:
            if self._handle is None and not self._closed.is_set():
                self._lock.wait(self._connection_timeout_ms / 1000)
            if self._handle is None:
                raise SessionExpiredError("the ZooKeeper session is closed" if self._closed.is_set() else "no session")
            return self._handle

    def _open_handle(self) -> KazooHandle:
        handle = KazooHandle(
            self._hosts,
            self._chroot,
            session_timeout_ms=self._session_timeout_ms,
            handlers=self._handlers,
            on_lost=self._session_lost,
            news=self._news,
            secure_acls=self._secure_acls,
            tls=self._tls,
            client_options=self._client_options,
            meters=self._meters,
        )
        handle.start(self._connection_timeout_ms)
        return handle

    def _ensure_chroot(self, handle: KazooHandle) -> None:
        """Create a missing chroot with its parents."""
        if not self._chroot:
            return
        root = Exists("/")
        if handle.await_response(root, handle.issue(root)).ok:
            return
        path = ""
        for name in self._chroot.strip("/").split("/"):
            path += "/" + name
            code = handle.create_absolute(path)
            if code not in (Code.OK, Code.NODE_EXISTS):
                raise ZkError(code, path, f"Could not create the chroot {path}: {code.name}")

    def _session_lost(self, handle: KazooHandle) -> None:
        # On kazoo's connection thread, which the discarding of the client has to join: leave the work to the renewer.
        with self._lock:
            self._lost.append(handle)
        self._renewer.wake()

    def _renew(self) -> float | None:
        """A step from a lost session to a new one: the old is discarded, then a new one is tried for until it is there.

        Returns when to try again, None if there is nothing to renew.
        """
        with self._lock:
            lost = self._handle if self._handle in self._lost else None
            self._lost.clear()
        if lost is not None:
            logger.warning("ZooKeeper session %#x is over, starting a new one", lost.session_id)
            self._handlers.before_new_session()
            with self._lock:
                self._handle = None
                self._between_sessions = True
            lost.close()
        if not self._between_sessions or self._closed.is_set():
            return None
        try:
            new = self._open_handle()
        except (ConnectTimeoutError, AuthenticationFailedError, OSError) as error:
            if self._news.is_new(str(error)):
                logger.error("Could not start a new ZooKeeper session, trying again: %s", error)
            return _NEW_SESSION_RETRY_MS
        with self._lock:
            self._handle = new
            self._between_sessions = False
            self._lock.notify_all()
        if self._closed.is_set():
            new.close()
            return None
        self._handlers.after_new_session()
        return 0
