"""Puts the replica manager of a broker together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.cluster.metadata_cache import MetadataCache, Node
from broker.config.kafka_config import KafkaConfig
from broker.fetching.replica_selector import make_selector
from broker.replication.follower.fetcher import FailedPartitions, FollowerSide, ReplicaFetcher
from broker.replication.follower.fetcher_manager import FetcherId, FetcherManager
from broker.replication.follower.leader_endpoint import FetchSettings, RemoteLeader
from broker.replication.isr.alter_partition import AlterPartitionManager
from broker.replication.isr.zk_isr import ZkIsrManager
from broker.replication.metrics import ReplicaMetrics
from broker.replication.partition_environment import AlterPartitionSender
from broker.replication.partitions import Partitions
from broker.replication.replica_manager import ReplicaManager
from broker.replication.replica_traffic import ReplicaTraffic
from broker.replication.throttle import ReplicationThrottles
from broker.replication.waiting.purgatories import DelayedOperations
from broker.requests.action_queue import ActionQueue
from log.management.manager import LogManager
from timer.clock import Clock
from timer.metrics import Metrics
from timer.scheduler import Scheduler
from timer.timer import SystemTimer
from timer.worker import Workers

if TYPE_CHECKING:
    from broker.cluster.controller_channel import ControllerChannel
    from controller.zk.client import ZkClient
    from network.client.connection import SocketWrapper


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
    wrap: SocketWrapper | None = None,
) -> ReplicaManager:
    """`wrap` secures the connections to leaders."""
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
    partitions = Partitions(metadata_cache.contains)
    replica_metrics = ReplicaMetrics(metrics, partitions.has_topic)
    traffic = ReplicaTraffic(partitions, ReplicationThrottles(config, clock, metrics), replica_metrics)
    side = FollowerSide(partitions, traffic, config.version, delayed.fetch.check_and_complete)
    selector_class = config.get_optional_str("replica.selector.class")
    return ReplicaManager(
        config,
        clock=clock,
        scheduler=scheduler,
        log_manager=log_manager,
        metadata_cache=metadata_cache,
        delayed=delayed,
        alter_partition=alter_partition,
        partitions=partitions,
        traffic=traffic,
        fetchers=_make_fetchers(config, clock, side, broker_epoch, metrics, workers, wrap),
        selector=make_selector(selector_class, metadata_cache, config.broker_id, clock),
        replica_metrics=replica_metrics,
        metrics=metrics,
        action_queue=action_queue,
        workers=workers,
    )


def _make_fetchers(
    config: KafkaConfig,
    clock: Clock,
    side: FollowerSide,
    broker_epoch: Callable[[], int],
    metrics: Metrics,
    workers: Workers,
    wrap: SocketWrapper | None,
) -> FetcherManager:
    """The fetchers of a real broker."""
    failed = FailedPartitions()
    settings = FetchSettings(
        config.get_int("replica.fetch.wait.max.ms"),
        config.get_int("replica.fetch.min.bytes"),
        config.get_int("replica.fetch.response.max.bytes"),
        config.get_int("replica.fetch.max.bytes"),
    )

    def make(fetcher_id: FetcherId, node: Node) -> ReplicaFetcher:
        name = f"ReplicaFetcherThread-{fetcher_id.number}-{fetcher_id.leader_id}"
        leader = RemoteLeader(
            node,
            config.broker_id,
            fetcher_id.number,
            config.version,
            settings,
            clock,
            broker_epoch,
            config.get_int("replica.socket.timeout.ms"),
            config.get_int("request.timeout.ms"),
            config.get_int("replica.socket.receive.buffer.bytes"),
            wrap,
        )
        tags = {"clientId": name, "brokerHost": node.host, "brokerPort": str(node.port)}
        received = metrics.meter("kafka.server", "FetcherStats", "BytesPerSec", **tags)
        requests = metrics.meter("kafka.server", "FetcherStats", "RequestsPerSec", **tags)
        return ReplicaFetcher(
            name,
            leader,
            side,
            failed,
            clock,
            config.get_int("replica.fetch.backoff.ms"),
            settings.partition_max_bytes,
            received.mark,
            requests.mark,
            workers,
        )

    return FetcherManager(config.get_int("num.replica.fetchers"), make, failed, metrics)
