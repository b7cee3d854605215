"""What the log has of ZooKeeper servers that are away: a line that names each one, not a line for each try."""

from __future__ import annotations

import logging
from typing import Any

from timer.clock import Clock
from timer.news import News, of_error

logger = logging.getLogger(__name__)

# Lines of kazoo that stand here or in `kazoo_handle` with an address or a session, or that say nothing new.
_TOLD_BETTER = (
    "Connection dropped: %s",
    "Connection time-out: %s",
    "Transition to CONNECTING",
    "Failed connecting to Zookeeper within the connection retry policy.",
)


class ServerNews:
    """Of all sessions of one client, one after the other. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._news = News(clock)

    def failed(self, server: str, error: Exception) -> None:
        """No connection to the server (`host:port`) could be made."""
        if self._news.is_new(server, of_error(error)):
            reason = getattr(error, "strerror", None) or error
            logger.warning("ZooKeeper at %s cannot be reached, trying on: %s", server, reason)

    def connected(self, server: str) -> None:
        """A connection to the server was made."""
        if self._news.is_over(server):
            logger.info("ZooKeeper at %s is reached again", server)

    def is_new(self, text: str) -> bool:
        """Whether a line of kazoo's was not there lately."""
        return self._news.is_new(("kazoo", text))


class KazooLog(logging.LoggerAdapter[logging.Logger]):
    """kazoo's logger, without what it repeats while a server is away."""

    def __init__(self, news: ServerNews) -> None:
        super().__init__(logging.getLogger("kazoo.client"))
        self._news = news

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        if level == logging.WARNING and (
            msg in _TOLD_BETTER or not self._news.is_new(str(msg) % args if args else str(msg))
        ):
            level = logging.DEBUG
        super().log(level, msg, *args, **kwargs)
