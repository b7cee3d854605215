"""The thread that accepts a listener's connections and gives them to processors in turn."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import selectors
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from network.server.connection_quotas import ConnectionQuotas, ConnectionRateExceeded, TooManyConnections
from network.server.wake_up import WakeUp
from timer.news import News

if TYPE_CHECKING:
    from network.server.processor import Processor
    from network.server.server_config import ListenerConfig
    from timer.clock import Clock
    from timer.metrics import Meter

logger = logging.getLogger(__name__)

_POLL_S = 0.5
_PAUSE_S = 0.1
_OFFER_MS = 100
_ACCEPT_BATCH = 32
_DELAYED_CLOSE_BOUND = 1000
_UNSET = -1
_MAPPED_IPV4 = "::ffff:"


def bind(listener: ListenerConfig, backlog: int, receive_buffer_bytes: int) -> socket.socket:
    """A listening, non-blocking socket. An empty host means every interface, IPv6 included where the host has it."""
    host = listener.host
    family = socket.AF_INET6 if ":" in host or (not host and socket.has_dualstack_ipv6()) else socket.AF_INET
    if host and family == socket.AF_INET:
        family = socket.getaddrinfo(host, listener.port, type=socket.SOCK_STREAM)[0][0]
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and not host:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if receive_buffer_bytes != _UNSET:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        try:
            sock.bind((host, listener.port))
        except OSError as error:
            where = f"{host or '*'}:{listener.port}"
            raise OSError(error.errno, f"cannot bind listener {listener.name} to {where}: {error.strerror}") from error
        sock.listen(backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


class Acceptor:
    """Accepts, applies the connection quotas, and offers each socket to the processors round-robin.

    When every processor's queue of new connections is full the acceptor waits on the last one it tried; connections
    then wait in the listen backlog.
    """

    def __init__(
        self,
        listener: ListenerConfig,
        server_socket: socket.socket,
        processors: list[Processor],
        quotas: ConnectionQuotas,
        clock: Clock,
        *,
        plane: str,
        send_buffer_bytes: int,
        blocked_meter: Meter,
        on_over_limit: Callable[[], None],
    ) -> None:
        """`on_over_limit` is called after a connection that took the broker over `max.connections`."""
        self.listener = listener
        self.processors = processors
        self._socket = server_socket
        self._quotas = quotas
        self._clock = clock
        self._failures = News(clock)
        self._send_buffer_bytes = send_buffer_bytes
        self._blocked_meter = blocked_meter
        self._on_over_limit = on_over_limit
        self._next = -1
        self._stopping = False
        self._wake_up = WakeUp()
        self._delayed: list[tuple[int, int, socket.socket]] = []  # (close at ms, tie-break, socket)
        self._tie = itertools.count()
        port = server_socket.getsockname()[1]
        name = f"{plane}-kafka-socket-acceptor-{listener.name}-{listener.security_protocol}-{port}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close the listening socket and end the thread."""
        self._stopping = True
        self._wake_up.wake()
        if self._thread.is_alive():
            self._thread.join(10)
        with contextlib.suppress(OSError):
            self._socket.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector, selectors.DefaultSelector() as pause:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._wake_up, selectors.EVENT_READ)
            pause.register(self._wake_up, selectors.EVENT_READ)
            while not self._stopping:
                try:
                    for key, _ in selector.select(self._poll_timeout()):
                        if key.fileobj is self._wake_up:
                            self._wake_up.clear()
                        elif not self._accept_some():
                            pause.select(_PAUSE_S)  # out of descriptors: do not spin on the readable socket
                    self._close_delayed(self._clock.monotonic_ms())
                except Exception:
                    logger.exception("acceptor of %s goes on after a failure", self.listener.name)
                    pause.select(_PAUSE_S)
        for _, _, sock in self._delayed:
            sock.close()
        self._socket.close()
        self._wake_up.close()

    def _poll_timeout(self) -> float:
        if not self._delayed:
            return _POLL_S
        left_ms: int = self._delayed[0][0] - self._clock.monotonic_ms()
        return min(_POLL_S, max(0.0, left_ms / 1000))

    def _accept_some(self) -> bool:
        """Accept what waits, within a bound; False when the system refuses to give more sockets."""
        for _ in range(_ACCEPT_BATCH):
            if self._stopping:
                break
            try:
                sock, peer = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                break
            except OSError as error:
                if self._failures.is_new(error.errno):
                    logger.warning("accept on %s failed: %s", self.listener.name, error)
                return False
            self._admit(sock, peer[0].removeprefix(_MAPPED_IPV4))
        return True

    def _admit(self, sock: socket.socket, address: str) -> None:
        name = self.listener.name
        try:
            waited = self._quotas.admit(name, address, lambda: self._stopping)
        except TooManyConnections as refusal:
            logger.info("refused a connection to %s: %s", name, refusal)
            sock.close()
            return
        except ConnectionRateExceeded as refusal:
            self._close_later(sock, refusal.throttle_ms)
            return
        if waited < 0:
            sock.close()
            return
        if waited:
            self._blocked_meter.mark(waited)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._send_buffer_bytes != _UNSET:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
            taken = self._assign(sock, address)
        except OSError:  # gone before it was set up
            taken = False
        if not taken:
            sock.close()
            self._quotas.release(name, address)

    def _assign(self, sock: socket.socket, address: str) -> bool:
        for _ in range(len(self.processors)):
            if self._next_processor().offer(sock, address):
                break
        else:
            began = self._clock.monotonic_ns()
            while not self._last_processor().offer(sock, address, wait_ms=_OFFER_MS):
                if self._stopping:
                    return False
            self._blocked_meter.mark(self._clock.monotonic_ns() - began)
        if self._quotas.over_limit():
            self._on_over_limit()
        return True

    def _next_processor(self) -> Processor:
        self._next = (self._next + 1) % len(self.processors)
        return self.processors[self._next]

    def _last_processor(self) -> Processor:
        return self.processors[self._next % len(self.processors)]  # their number may have changed

    def _close_later(self, sock: socket.socket, delay_ms: int) -> None:
        if len(self._delayed) >= _DELAYED_CLOSE_BOUND:
            sock.close()
            return
        heapq.heappush(self._delayed, (self._clock.monotonic_ms() + delay_ms, next(self._tie), sock))

    def _close_delayed(self, now_ms: int) -> None:
        while self._delayed and self._delayed[0][0] <= now_ms:
            heapq.heappop(self._delayed)[2].close()
