"""Registering the broker again after its session expired, when another process may have taken its id meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from controller.zk.brokers import BrokerIdInUseError

if TYPE_CHECKING:
    from timer.scheduler import ScheduledTask, Scheduler

logger = logging.getLogger(__name__)

RETRY_MS = 500


class Reregistration:
    """Tries until the id is free. Kafka's broker tries once, and goes on unregistered until somebody restarts it.

    `register` returns the broker epoch or raises `BrokerIdInUseError`; `again` has the event thread call `attempt`
    once more. All methods are called on the event thread.
    """

    def __init__(self, register: Callable[[], int], again: Callable[[], None], scheduler: Scheduler) -> None:
        self._register = register
        self._again = again
        self._scheduler = scheduler
        self._next: ScheduledTask | None = None
        self._waits = False

    def attempt(self) -> int | None:
        """The new broker epoch; None if another session holds the id, which is then tried again after `RETRY_MS`."""
        self._next = None
        try:
            epoch = self._register()
        except BrokerIdInUseError as error:
            if not self._waits:
                self._waits = True
                logger.error(
                    "%s; without a registration this broker leads nothing new, until the id is free", error.held
                )
            self._next = self._scheduler.schedule_once("register-broker", self._again, RETRY_MS)
            return None
        if self._waits:
            self._waits = False
            logger.info("The id is free, and this broker is registered again")
        return epoch

    def stop(self) -> None:
        """Forget what is still to be tried: the session has expired again, or the controller shuts down."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
