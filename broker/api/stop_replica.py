"""StopReplica (key 5, versions 0-4): the controller tells this broker to stop, and maybe delete, replicas.

Versions: 1 the broker's epoch, by which a request meant for its former life is refused; 2 flexible; 3 leader epochs,
and whether to delete, for each partition (KIP-570); 4 whether a KRaft controller sends it.
"""

from __future__ import annotations

from broker.api.leader_and_isr import resigned
from broker.requests.cluster_action import is_stale_broker_epoch, require_broker
from broker.requests.registry import Call, api
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


@api(ApiKey.STOP_REPLICA, versions=(0, 4))
def handle(call: Call[StopReplicaRequest]) -> StopReplicaResponse:
    require_broker(call)
    broker = call.broker
    if is_stale_broker_epoch(call, call.request.broker_epoch):
        return StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)

    def on_deleted(tp: TopicPartition, leader_epoch: int) -> None:
        resigned(broker, tp.topic, tp.partition, leader_epoch if leader_epoch >= 0 else None)

    return broker.role_changes.stop_replicas(call.request, call.version, on_deleted)
