"""Writing ISR changes straight to ZooKeeper (`inter.broker.protocol.version` below 2.7-IV2).

The leader writes the state znode conditionally, and tells the controller which partitions changed by a notification
that gathers many of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.replication.isr.state import LeaderAndIsr, LeaderRecoveryState
from controller.zk.payloads import PartitionState
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from timer.clock import Clock
from timer.news import News, of_error
from timer.scheduler import Scheduler

if TYPE_CHECKING:
    from controller.zk.client import ZkClient

logger = logging.getLogger(__name__)

CHECK_INTERVAL_MS = 2_500
QUIET_MS = 5_000
MAX_WAIT_MS = 60_000


class ZkIsrManager:
    """Writes and announces; work is done on the scheduler, because a write waits for ZooKeeper."""

    def __init__(self, zk: ZkClient, scheduler: Scheduler, clock: Clock) -> None:
        self._zk = zk
        self._scheduler = scheduler
        self._clock = clock
        self._lock = threading.Lock()
        self._changed: set[TopicPartition] = set()
        self._failures = News(clock)
        self._last_change_ms = clock.monotonic_ms()
        self._last_announced_ms = clock.monotonic_ms()

    def start(self) -> None:
        self._scheduler.schedule("isr-change-propagation", self.maybe_announce, CHECK_INTERVAL_MS, CHECK_INTERVAL_MS)

    def submit(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        proposal: LeaderAndIsr,
        controller_epoch: int,
        callback: Callable[[LeaderAndIsr | ErrorCode], None],
    ) -> None:
        state = PartitionState(
            proposal.leader,
            proposal.leader_epoch,
            proposal.isr,
            controller_epoch,
            int(proposal.recovery_state),
            proposal.partition_epoch,
        )

        def write() -> None:
            try:
                written = self._zk.set_partition_state_as_leader(topic_partition, state)
            except Exception as error:
                if self._failures.is_new(topic_partition, of_error(error)):
                    logger.exception("%s: cannot write its state to ZooKeeper, trying on", topic_partition)
                self._scheduler.schedule_once("retry-isr-change", write, delay_ms=1000)
                return
            self._failures.is_over(topic_partition)
            if written is None:
                callback(ErrorCode.INVALID_UPDATE_VERSION)
                return
            with self._lock:
                self._changed.add(topic_partition)
                self._last_change_ms = self._clock.monotonic_ms()
            callback(
                LeaderAndIsr(
                    written.leader,
                    written.leader_epoch,
                    tuple(written.isr),
                    LeaderRecoveryState(written.recovery_state),
                    written.partition_epoch,
                )
            )

        self._scheduler.schedule_once("isr-change", write)

    def maybe_announce(self) -> None:
        """Tell the controller when nothing has changed for a while, or when the last time is long ago."""
        now = self._clock.monotonic_ms()
        with self._lock:
            quiet = now - self._last_change_ms > QUIET_MS
            if not self._changed or not (quiet or now - self._last_announced_ms > MAX_WAIT_MS):
                return
            changed = sorted(self._changed)
            self._changed.clear()
            self._last_announced_ms = now
        try:
            self._zk.propagate_isr_changes(changed)
        except Exception as error:
            if self._failures.is_new("announcement", of_error(error)):
                logger.exception("cannot announce ISR changes, trying on")
            with self._lock:
                self._changed.update(changed)
