"""Connections that have to be done with something in time: a handshake, a login."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from network.server.server_connection import ServerConnection

_CHECK_S = 1.0
_MS = 1_000_000


class Deadlines:
    """Closes whoever is late, to a second. Used from the processor's thread only; holds no more than the connections
    of that processor."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        now_ns: Callable[[], int],
        limit_ms: int,
        close: Callable[[ServerConnection], None],
    ) -> None:
        """`close` must call `done`. A negative limit is none."""
        self._loop = loop
        self._now = now_ns
        self._limit_ms = limit_ms
        self._close = close
        self._since: OrderedDict[ServerConnection, int] = OrderedDict()  # oldest first
        self._checks = False

    def __len__(self) -> int:
        return len(self._since)

    def begin(self, connection: ServerConnection) -> None:
        """Its time runs from now."""
        if self._limit_ms < 0:
            return
        self._since[connection] = self._now()
        if not self._checks:
            self._checks = True
            self._loop.call_later(_CHECK_S, self._check)

    def done(self, connection: ServerConnection) -> None:
        """It was in time, or is closed. Idempotent."""
        self._since.pop(connection, None)

    def close_oldest(self) -> None:
        """Make room."""
        self._close(next(iter(self._since)))

    def _check(self) -> None:
        limit = self._now() - self._limit_ms * _MS
        while self._since:
            connection, since = next(iter(self._since.items()))
            if since > limit:
                break
            self._close(connection)
        self._checks = bool(self._since)
        if self._checks:
            self._loop.call_later(_CHECK_S, self._check)
