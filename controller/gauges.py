"""The controller's gauges; on a broker that is not controller all but two are 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from controller.context import ControllerContext
from controller.event_manager import ControllerState
from controller.states import ReplicaStatus

if TYPE_CHECKING:
    from timer.metrics import Metrics

_ZOOKEEPER_MODE = 4


def register(
    metrics: Metrics,
    is_active: Callable[[], bool],
    context: ControllerContext,
    state: Callable[[], ControllerState],
) -> None:
    """Register all gauges of `kafka.controller:type=KafkaController`."""

    def in_state(wanted: ReplicaStatus) -> int:
        topics = list(context.topics_to_delete)
        return sum(len(context.replicas_in_state(topic, wanted)) for topic in topics)

    values: dict[str, Callable[[], float]] = {
        "OfflinePartitionsCount": lambda: context.offline_partition_count,
        "PreferredReplicaImbalanceCount": lambda: context.preferred_imbalance_count,
        "GlobalTopicCount": lambda: len(context.topics),
        "GlobalPartitionCount": lambda: len(context.leadership),
        "TopicsToDeleteCount": lambda: len(context.topics_to_delete),
        "ReplicasToDeleteCount": lambda: (
            sum(len(context.replicas_of_topic(topic)) for topic in list(context.topics_to_delete))
            - in_state(ReplicaStatus.DELETION_SUCCESSFUL)
        ),
        "TopicsIneligibleToDeleteCount": lambda: len(context.topics_ineligible),
        "ReplicasIneligibleToDeleteCount": lambda: in_state(ReplicaStatus.DELETION_INELIGIBLE),
        "ActiveBrokerCount": lambda: len(context.brokers),
        "FencedBrokerCount": lambda: 0,
    }

    def when_active(value: Callable[[], float]) -> Callable[[], float]:
        return lambda: value() if is_active() else 0

    group, type_ = "kafka.controller", "KafkaController"
    metrics.gauge(group, type_, "ActiveControllerCount", lambda: 1 if is_active() else 0)
    metrics.gauge(group, type_, "ControllerState", lambda: state().number if is_active() else 0)
    metrics.gauge(group, type_, "ZkMigrationState", lambda: _ZOOKEEPER_MODE)
    for name, value in values.items():
        metrics.gauge(group, type_, name, when_active(value))
