"""UpdateMetadata (key 6, versions 0-8): the controller tells this broker what the cluster looks like.

Afterwards everything is checked that waits for metadata: topic creation and deletion, elections, and at the first one
what clients have asked since the broker started.

Versions: 1 many endpoints a broker; 2 racks; 3 listener names; 4 offline replicas; 5 the broker's epoch, by which a
request meant for its former life is refused, and partitions by topic; 6 flexible; 7 topic ids; 8 whether a KRaft
controller sends it, and whether the request names all partitions.
"""

from __future__ import annotations

from broker.replication.become_leader_or_follower import is_of_older_controller
from broker.requests.cluster_action import is_stale_broker_epoch, require_broker
from broker.requests.registry import Call, api
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


@api(ApiKey.UPDATE_METADATA, versions=(0, 8))
def handle(call: Call[UpdateMetadataRequest]) -> UpdateMetadataResponse:
    require_broker(call)
    request, broker = call.request, call.broker
    if is_stale_broker_epoch(call, request.broker_epoch):
        return UpdateMetadataResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    manager = broker.replica_manager
    with manager.partitions.state_change_lock:
        if is_of_older_controller(request, manager.controller_epoch):
            return UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        cache = broker.metadata_cache
        alive = cache.snapshot.brokers.keys()
        deleted = cache.update(request, call.version)
        manager.controller_epoch = request.controller_epoch
    broker.start_gate.open()
    if alive - cache.snapshot.brokers.keys():
        manager.on_brokers_gone()
    if deleted:
        for listener in broker.partition_deletion_listeners:
            listener(deleted)
    named = list(_named(request, call.version))
    if named:
        broker.topic_purgatory_check({tp.topic for tp in named})
        elections = manager.delayed.elect_leader
        if elections.watched:
            for tp in named:
                elections.check_and_complete(tp)
    return UpdateMetadataResponse()


def _named(request: UpdateMetadataRequest, version: int) -> list[TopicPartition]:
    if version < 5:
        return [TopicPartition(state.topic_name, state.partition_index) for state in request.ungrouped_partition_states]
    return [
        TopicPartition(topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
