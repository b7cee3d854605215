"""The group coordinator's ties to a broker: the log of `__consumer_offsets`, purgatories and a thread of its own."""

from __future__ import annotations

from broker.coordinator.internal_topic import InternalTopic
from broker.coordinator.internal_topic_names import OFFSETS_TOPIC
from broker.groups.config import GroupConfig
from broker.groups.consumer.config import ConsumerGroupConfig
from broker.groups.coordinator import GroupCoordinator, Surroundings
from broker.requests.context import BrokerContext
from timer.purgatory import DelayedOperation, Purgatory
from timer.scheduler import BackgroundScheduler
from timer.timer import SystemTimer


def make_group_coordinator(broker: BrokerContext) -> GroupCoordinator:
    """Start the coordinator of `broker` and hook it into partition changes; the caller shuts it down."""
    known = broker.zk.topic(OFFSETS_TOPIC)
    partitions = len(known.assignment) if known is not None else broker.config.get_int("offsets.topic.num.partitions")

    def purgatory(name: str) -> Purgatory[DelayedOperation]:
        timer = SystemTimer(name, broker.clock, workers=broker.workers)
        return Purgatory(name, timer, broker_id=broker.broker_id, metrics=broker.metrics, workers=broker.workers)

    coordinator = GroupCoordinator(
        InternalTopic(
            OFFSETS_TOPIC, broker.replica_manager, lambda question: broker.transaction_verifier.verify(question)
        ),
        partitions,
        Surroundings(
            broker.clock,
            broker.chance,
            BackgroundScheduler(1, broker.clock, "group-metadata-manager", broker.workers),
            purgatory("Rebalance"),
            purgatory("Heartbeat"),
            broker.metrics,
        ),
        GroupConfig.from_kafka_config(broker.config),
        ConsumerGroupConfig.from_kafka_config(broker.config),
        topics=lambda: broker.metadata_cache.snapshot,
    )
    coordinator.startup()
    broker.group_coordinator = coordinator
    broker.coordinator_hooks[OFFSETS_TOPIC] = coordinator
    broker.partition_deletion_listeners.append(coordinator.on_partitions_deleted)
    return coordinator
