"""The connections of one processor: registered with its event loop, ordered by last use, and closed.

The reader and the writer act on connections through this table.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from network.server.deadlines import Deadlines
from network.server.server_connection import HOLD_CLOSING, HOLD_DRAINING, ServerConnection

if TYPE_CHECKING:
    from network.server.connection_quotas import ConnectionQuotas
    from timer.clock import Clock

logger = logging.getLogger(__name__)

Ready = Callable[[ServerConnection], None]

HANDSHAKE_MS = 30_000
"""How long a connection may take for its handshake."""
HANDSHAKES = 500
"""Handshakes that may be under way on a processor; one more closes the oldest."""

_MS = 1_000_000
_SLACK_S = 0.001


class ConnectionTable:
    """Used from the processor's thread only, except for `len`.

    `on_readable`, `on_writable` and `on_closed` must be set before a connection is added.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener_name: str,
        quotas: ConnectionQuotas,
        clock: Clock,
        max_idle_ms: int,
        max_login_ms: int,
    ) -> None:
        self.loop = loop
        self.on_readable: Ready
        self.on_writable: Ready
        self.on_closed: Ready
        """Lets go of what reader and writer hold for a connection."""
        self.draining = False
        """No request is begun any more; may be set from any thread."""
        self._listener_name = listener_name
        self._quotas = quotas
        self._now = clock.monotonic_ns
        self._max_idle_ns = max_idle_ms * _MS
        self._connections: OrderedDict[ServerConnection, None] = OrderedDict()  # least recently used first
        self._handshakes = Deadlines(loop, self._now, HANDSHAKE_MS, self._close_handshake)
        self._logins = Deadlines(loop, self._now, max_login_ms, self._close_login)

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[ServerConnection]:
        return iter(self._connections)

    def add(self, connection: ServerConnection) -> None:
        """Take a counted connection and begin to read from it."""
        self._connections[connection] = None
        if not connection.transport.handshake_done:
            if len(self._handshakes) >= HANDSHAKES:
                self._handshakes.close_oldest()
            self._handshakes.begin(connection)
        if connection.authenticator is not None:
            self._logins.begin(connection)
        self.start_reading(connection)

    def handshake_done(self, connection: ServerConnection) -> None:
        self._handshakes.done(connection)

    def login_done(self, connection: ServerConnection) -> None:
        self._logins.done(connection)

    def _close_handshake(self, connection: ServerConnection) -> None:
        self.close(connection, "closed: its handshake took too long, or too many are under way")

    def _close_login(self, connection: ServerConnection) -> None:
        self.close(connection, "closed: it has not logged in in time")

    def start_reading(self, connection: ServerConnection) -> None:
        if not connection.reading:
            connection.reading = True
            self.loop.add_reader(connection.fd, self.on_readable, connection)

    def stop_reading(self, connection: ServerConnection) -> None:
        if connection.reading:
            connection.reading = False
            self.loop.remove_reader(connection.fd)

    def start_writing(self, connection: ServerConnection) -> None:
        """Have `on_writable` called whenever the socket takes bytes."""
        if not connection.writing:
            connection.writing = True
            self.loop.add_writer(connection.fd, self.on_writable, connection)

    def stop_writing(self, connection: ServerConnection) -> None:
        if connection.writing:
            connection.writing = False
            self.loop.remove_writer(connection.fd)

    def touch(self, connection: ServerConnection, now_ns: int) -> None:
        """The connection did something."""
        connection.last_active_ns = now_ns
        self._connections.move_to_end(connection)

    def close(self, connection: ServerConnection, reason: str | None = None, level: int = logging.INFO) -> None:
        """Close a connection and let go of everything it holds. Idempotent.

        A request in flight runs on; its response is dropped when it comes.
        """
        if connection.closed:
            return
        connection.closed = True
        if reason is not None:
            logger.log(level, "connection %s: %s", connection.info.id, reason)
        self.stop_reading(connection)
        self.stop_writing(connection)
        if connection.throttle is not None:
            connection.throttle.cancel()
        connection.request = None
        self.on_closed(connection)
        self._connections.pop(connection, None)
        self._handshakes.done(connection)
        self._logins.done(connection)
        try:
            connection.transport.close()
        except OSError as error:
            logger.debug("closing %s: %s", connection.info.id, error)
        self._quotas.release(self._listener_name, connection.address)

    def close_all(self) -> None:
        for connection in list(self._connections):
            self.close(connection)

    def drain(self) -> None:
        """Read no more from any connection."""
        for connection in self._connections:
            connection.hold |= HOLD_DRAINING
            self.stop_reading(connection)

    def close_excess(self) -> None:
        """While the broker has more connections than its limit, close one: one that closes anyway, else the least
        recently used."""
        while self._connections and self._quotas.claim_excess():
            closing = next((each for each in self._connections if each.hold & HOLD_CLOSING), None)
            self.close(closing or next(iter(self._connections)), "closed: the broker has too many connections")
            self._quotas.unclaim_excess()

    def watch_idle(self) -> None:
        """From now on close connections that were silent for too long, one a round, least recently used first."""
        if self._max_idle_ns < 0:
            return
        wait_ns = self._max_idle_ns
        if self._connections:
            oldest = next(iter(self._connections))
            wait_ns = max(0, oldest.last_active_ns + self._max_idle_ns - self._now())
        self.loop.call_later(wait_ns / 1e9 + _SLACK_S, self._close_idle)

    def _close_idle(self) -> None:
        try:
            if self._connections:
                oldest = next(iter(self._connections))
                if self._now() - oldest.last_active_ns > self._max_idle_ns:
                    self.close(oldest, "idle for too long")
        finally:
            self.watch_idle()
