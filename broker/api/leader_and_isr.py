"""LeaderAndIsr (key 4, versions 0-7): the controller tells this broker which partitions it leads and follows.

Versions: 1 whether a replica is new: only then is it made while a log directory is offline (KIP-112); 2 the broker's
epoch, by which a request meant for its former life is refused, and partitions by topic; 3 replicas that a reassignment
adds and removes; 4 flexible; 5 topic ids, and whether the request names all partitions (KIP-516); 6 leader recovery
state (KIP-704); 7 whether a KRaft controller sends it.
"""

from __future__ import annotations

from broker.replication.become_leader_or_follower import leader_and_isr_error
from broker.replication.partition import Partition
from broker.requests.cluster_action import is_stale_broker_epoch, require_broker
from broker.requests.context import BrokerContext
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


def _error_form(call: Call[LeaderAndIsrRequest], code: ErrorCode, message: str | None) -> LeaderAndIsrResponse:
    return leader_and_isr_error(call.request, call.version, code)


@api(ApiKey.LEADER_AND_ISR, versions=(0, 7), error_form=_error_form)
def handle(call: Call[LeaderAndIsrRequest]) -> LeaderAndIsrResponse:
    require_broker(call)
    request, broker = call.request, call.broker
    if is_stale_broker_epoch(call, request.broker_epoch):
        return leader_and_isr_error(request, call.version, ErrorCode.STALE_BROKER_EPOCH)

    def on_leadership_change(leaders: list[Partition], followers: list[Partition]) -> None:
        for partition in leaders:
            elected(broker, partition.topic_partition.topic, partition.topic_partition.partition, partition)
        for partition in followers:
            resigned(
                broker,
                partition.topic_partition.topic,
                partition.topic_partition.partition,
                partition.leader_epoch,
            )

    return broker.role_changes.become_leader_or_follower(request, call.version, on_leadership_change)


def elected(broker: BrokerContext, topic: str, index: int, partition: Partition) -> None:
    """Tell the coordinator that lives in a partition of its topic that this broker leads it now."""
    hooks = broker.coordinator_hooks.get(topic)
    if hooks is not None:
        hooks.on_election(index, partition.leader_epoch)


def resigned(broker: BrokerContext, topic: str, index: int, leader_epoch: int | None) -> None:
    """Tell the coordinator that this broker does not lead the partition any more; `None`: whatever the epoch."""
    hooks = broker.coordinator_hooks.get(topic)
    if hooks is not None:
        hooks.on_resignation(index, leader_epoch)
