"""Says ahead of time that a listener's certificate ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.security.listeners import ListenerSecurity
    from timer.clock import Clock
    from timer.metrics import Metrics

logger = logging.getLogger(__name__)

CHECK_DELAY_MS: Final = 1000
CHECK_MS: Final = 6 * 3600 * 1000
_WARN_DAYS: Final = 30
_DAY_S: Final = 86_400


class CertificateWatch:
    """The gauge `kafka.server:type=CertificateExpiry,name=SecondsLeft,listener=...` (a metric of Odradek's own), and a
    warning at the start and at each check within the last 30 days."""

    def __init__(self, security: ListenerSecurity, clock: Clock, metrics: Metrics) -> None:
        self._security = security
        self._clock = clock
        self._metrics = metrics
        self._gauges: set[str] = set()
        self._checking = threading.Lock()

    def check(self) -> None:
        """From time to time, and when listeners may have come or gone."""
        with self._checking:
            self._check(list(self._security.tls))

    def _check(self, listeners: list[str]) -> None:
        for name in self._gauges.difference(listeners):
            self._gauges.remove(name)
            self._metrics.remove("kafka.server", "CertificateExpiry", "SecondsLeft", listener=name)
        for name in set(listeners) - self._gauges:
            self._gauges.add(name)
            self._metrics.gauge("kafka.server", "CertificateExpiry", "SecondsLeft", self._left(name), listener=name)
        for name in listeners:
            days = self._left(name)() / _DAY_S
            if days < 0:
                logger.error("the certificate of listener %s has expired: no client that checks it connects", name)
            elif days < _WARN_DAYS:
                logger.warning("the certificate of listener %s expires in %.1f days", name, days)

    def _left(self, name: str) -> Callable[[], float]:
        def seconds() -> float:
            listener = self._security.tls.get(name)
            return 0.0 if listener is None else listener.seconds_left(self._clock.wall_ms() / 1000)

        return seconds
