"""ListPartitionReassignments (key 46, version 0): the reassignments that are going on."""

from __future__ import annotations

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest


@api(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0))
def handle(call: Call[ListPartitionReassignmentsRequest]) -> None:
    require_cluster(call, Operation.DESCRIBE)
    call.broker.controller.list_partition_reassignments(call.request, call.respond)
