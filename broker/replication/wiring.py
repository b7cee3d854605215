"""Puts the replica manager of a broker together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.action_queue import ActionQueue
from broker.config.kafka_config import KafkaConfig
from broker.metadata_cache import MetadataCache
from broker.replication.alter_partition import AlterPartitionManager
from broker.replication.delayed import DelayedOperations
from broker.replication.fetcher_manager import make_fetcher_manager
from broker.replication.partition_environment import AlterPartitionSender
from broker.replication.replica_manager import ReplicaManager
from broker.replication.replica_selector import make_selector
from broker.replication.zk_isr import ZkIsrManager
from log.manager import LogManager
from timer.clock import Clock
from timer.metrics import Metrics
from timer.scheduler import Scheduler
from timer.timer import SystemTimer
from timer.worker import Workers

if TYPE_CHECKING:
    from broker.controller_channel import ControllerChannel
    from controller.zk.client import ZkClient


def make_replica_manager(
    config: KafkaConfig,
    *,
    clock: Clock,
    scheduler: Scheduler,
    log_manager: LogManager,
    metadata_cache: MetadataCache,
    metrics: Metrics,
    action_queue: ActionQueue,
    zk: ZkClient,
    channel: ControllerChannel,
    broker_epoch: Callable[[], int],
    workers: Workers,
) -> ReplicaManager:
    names = ("Produce", "Fetch", "DeleteRecords", "ElectLeader")
    delayed = DelayedOperations(
        {name: SystemTimer(name, clock, workers=workers) for name in names},
        {
            "Produce": config.get_int("producer.purgatory.purge.interval.requests"),
            "Fetch": config.get_int("fetch.purgatory.purge.interval.requests"),
            "DeleteRecords": config.get_int("delete.records.purgatory.purge.interval.requests"),
        },
        metrics,
        config.broker_id,
        workers,
    )
    alter_partition: AlterPartitionSender
    if config.version.uses_alter_partition:
        alter_partition = AlterPartitionManager(
            config.broker_id, broker_epoch, metadata_cache.topic_name, channel, scheduler
        )
    else:
        zk_isr = ZkIsrManager(zk, scheduler, clock)
        zk_isr.start()
        alter_partition = zk_isr
    manager = ReplicaManager(
        config,
        clock=clock,
        scheduler=scheduler,
        log_manager=log_manager,
        metadata_cache=metadata_cache,
        delayed=delayed,
        alter_partition=alter_partition,
        metrics=metrics,
        action_queue=action_queue,
        workers=workers,
    )
    manager.fetchers = make_fetcher_manager(manager, broker_epoch, metrics, workers)
    manager.selector = make_selector(config.get_optional_str("replica.selector.class"), metadata_cache)
    return manager
