"""A log manager as a broker has it, under a manual clock and scheduler."""

from __future__ import annotations

import os

from log.config import LogConfig
from log.management.manager import LogManager
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from tests.unit.log.harness import SMALL
from timer.chance import SystemChance
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Broker:
    """What a broker has of the log package, over directories that outlive it."""

    def __init__(self, *dirs: str | os.PathLike[str], config: LogConfig = SMALL, **options: object) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.topic_configs: dict[str, dict[str, str]] = {}
        self.failed: list[str] = []
        self.manager = LogManager(
            [os.fspath(d) for d in dirs],
            default_config=config,
            topic_configs=lambda topic: self.topic_configs.get(topic, {}),
            broker_id=1,
            cluster_id="cluster",
            clock=self.clock,
            scheduler=self.scheduler,
            chance=SystemChance(),
            **{"on_dir_failure": self.failed.append, **options},  # type: ignore[arg-type]
        )

    def start(self) -> LogManager:
        self.manager.startup()
        return self.manager

    def tick(self, ms: int) -> None:
        self.clock.advance(ms)
        self.scheduler.tick()


def new(manager: LogManager, tp: TopicPartition) -> PartitionLog:
    return manager.get_or_create_log(tp, is_new=True)


def crash(manager: LogManager) -> None:
    """The process is gone: its files are closed and its locks dropped."""
    for log in manager.all_logs():
        log.close_handles()
    for log_dir in manager._live.values():
        log_dir.unlock(remove=False)
