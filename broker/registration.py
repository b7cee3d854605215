"""The id of a broker, and its registration when the id may still belong to the session of its previous process.

A process that was killed leaves its registration in ZooKeeper until its session times out. For that long Kafka's
broker fails to start, and whoever restarts it has to try again and again; this one waits. That the id belongs to
another broker that is alive shows only by the registration staying longer than any session that is silent.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from controller.zk.brokers import BrokerIdInUseError
from log.errors import LogError
from log.files.meta_properties import read_meta_properties
from timer.clock import Clock

logger = logging.getLogger(__name__)

MARGIN_MS = 6_000
"""ZooKeeper ends sessions at its own ticks (3 s as it comes), and the new process may be quicker than the last ping."""
RETRY_MS = 100
AWAY_MS = 500
"""An answer that took longer: ZooKeeper was away, and as it comes back it gives all sessions their whole time again."""
MAX_TIMES_AWAY = 10
"""More than these, and it is only slow: the id of a broker that lives would be waited for without end."""


class StoppedAtStartError(Exception):
    """The broker was asked to stop before it had started."""


class Registrations(Protocol):
    """What is needed of ZooKeeper."""

    def __call__(self) -> int:
        """Register; the broker epoch. Raises BrokerIdInUseError."""
        ...


def broker_id_on_disk(log_dirs: Iterable[str]) -> int | None:
    """The first id in a `meta.properties` of these directories."""
    for directory in log_dirs:
        try:
            found = read_meta_properties(directory)
        except (LogError, OSError):
            continue  # the log manager takes the directory offline, or refuses to start
        if found is not None and found.broker_id is not None:
            return found.broker_id
    return None


def register_when_free(
    register: Registrations, session_timeout_ms: int, clock: Clock, must_stop: Callable[[], bool]
) -> int:
    """Register, if need be when the session that holds the id has ended; returns the broker epoch.

    Raises BrokerIdInUseError when the id is held for longer than a dead session may hold it (since ZooKeeper was last
    away, up to `MAX_TIMES_AWAY`), and StoppedAtStartError when `must_stop` says so while this waits.
    """
    limit_ms = session_timeout_ms + MARGIN_MS
    first = began = clock.monotonic_ms()
    times_away = 0
    condition = threading.Condition()
    told = False
    while True:
        asked = clock.monotonic_ms()
        try:
            epoch = register()
        except BrokerIdInUseError as error:
            now = clock.monotonic_ms()
            if now - asked >= AWAY_MS and times_away < MAX_TIMES_AWAY:
                times_away += 1
                began = now
            if now - began >= limit_ms:
                raise
            if not told:
                told = True
                logger.warning("%s; waiting for the end of that session, at most %.0f s", error.held, limit_ms / 1000)
        else:
            if told:
                logger.info("the id is free after %.1f s", (clock.monotonic_ms() - first) / 1000)
            return epoch
        if must_stop():
            raise StoppedAtStartError("stopped while waiting for the end of another session")
        with condition:
            clock.wait(condition, RETRY_MS)
