"""AlterPartitionReassignments (key 45, version 0): give partitions other replicas, or stop doing so.

Answered by the active controller once the reassignment is accepted; it then goes on in the background.
"""

from __future__ import annotations

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest


@api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 0))
def handle(call: Call[AlterPartitionReassignmentsRequest]) -> None:
    require_cluster(call, Operation.ALTER)
    call.broker.controller.alter_partition_reassignments(call.request, call.respond)
