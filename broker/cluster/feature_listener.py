"""Follows `/feature`, the finalized feature levels of the cluster (KIP-584).

Every broker watches the znode, present or not; whatever happens to it leads to one full read. The version of the znode
is the epoch that ApiVersions reports. A broker must not go on with features it does not support, nor with a znode that
went back: the broker stops. A znode that is missing, disabled or unreadable means no finalized features.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.requests.context import Features
from controller.zk import paths
from controller.zk.payloads import PayloadError
from controller.zk.reruns import Reruns
from controller.zk.session import DataHandler, SessionExpiredError, SessionHandler

if TYPE_CHECKING:
    from controller.zk.client import ZkClient
    from timer.clock import Clock
from timer.worker import Workers

logger = logging.getLogger(__name__)

_NAME = "feature-listener"
# Brokers in ZooKeeper mode support no feature, so every finalized one is incompatible.
SUPPORTED: frozenset[str] = frozenset()


class IncompatibleFeaturesError(Exception):
    """The cluster has finalized features that this broker lacks, or the features epoch went back."""


class FeatureListener:
    """Reads in `start`, then on a thread of its own: `publish` gets every new state, `halt` is called once when the
    broker can't go on."""

    def __init__(
        self,
        zk: ZkClient,
        publish: Callable[[Features], None],
        halt: Callable[[], None],
        clock: Clock,
        workers: Workers | None = None,
    ) -> None:
        self._zk = zk
        self._publish = publish
        self._halt = halt
        self._clock = clock
        self._features = Features()
        self._changed = threading.Condition()
        self._reruns = Reruns(_NAME, self._guarded_read, clock, workers)

    def start(self) -> None:
        """Watch, read once and start the thread. Raises IncompatibleFeaturesError and what the read raises."""
        request = self._reruns.request
        self._zk.session.register_data_handler(DataHandler(paths.FEATURE, request, request, request))
        self._zk.session.register_session_handler(SessionHandler(_NAME, after_new_session=request))
        self._read()
        self._reruns.start()

    def close(self) -> None:
        """Stop listening; idempotent."""
        self._zk.session.unregister_session_handler(_NAME)
        self._zk.session.unregister_data_handler(paths.FEATURE)
        self._reruns.close()

    def await_epoch(self, epoch: int, timeout_ms: float) -> None:
        """Block until this broker has seen that epoch or a later one. Raises TimeoutError."""
        deadline = self._clock.monotonic_ms() + timeout_ms
        with self._changed:
            while self._features.epoch < epoch:
                left = deadline - self._clock.monotonic_ms()
                if left <= 0:
                    raise TimeoutError(f"epoch {epoch} of the finalized features did not arrive within {timeout_ms} ms")
                self._clock.wait(self._changed, left)

    def _guarded_read(self) -> None:
        try:
            self._read()
        except IncompatibleFeaturesError as error:
            logger.critical("%s", error)
            self._reruns.close()
            self._halt()
        except SessionExpiredError:
            pass  # the new session asks again

    def _read(self) -> None:
        features = self._current()
        if features.epoch >= 0 and features.epoch < self._features.epoch:
            raise IncompatibleFeaturesError(
                f"{paths.FEATURE} went back from version {self._features.epoch} to {features.epoch}"
            )
        missing = sorted(features.levels.keys() - SUPPORTED)
        if missing:
            raise IncompatibleFeaturesError(
                f"the cluster has finalized features that this broker does not support: {', '.join(missing)}"
            )
        if features != self._features:
            logger.info("finalized features are now %s at epoch %d", dict(features.levels), features.epoch)
        self._publish(features)
        with self._changed:
            self._features = features
            self._changed.notify_all()

    def _current(self) -> Features:
        # `exists` arms the watch on a missing znode too; a read of it would not.
        if not self._zk.exists(paths.FEATURE):
            return Features()
        try:
            found = self._zk.feature()
        except PayloadError as error:
            logger.error("%s is not readable: %s", paths.FEATURE, error)
            return Features()
        if found is None or not found[0].enabled:
            return Features()
        return Features(found[1], dict(found[0].features))
