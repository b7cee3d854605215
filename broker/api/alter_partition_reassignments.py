"""AlterPartitionReassignments (key 45, version 0): give partitions other replicas, or stop doing so.

Answered by the active controller once the reassignment is accepted; it then goes on in the background.
"""

from __future__ import annotations

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def _error_form(
    call: Call[AlterPartitionReassignmentsRequest], code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=code, error_message=message
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in call.request.topics
        ],
    )


@api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 0), error_form=_error_form)
def handle(call: Call[AlterPartitionReassignmentsRequest]) -> None:
    require_cluster(call, Operation.ALTER)
    call.broker.controller.alter_partition_reassignments(call.request, call.respond)
