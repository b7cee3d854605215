"""DescribeCluster (key 60, versions 0-1): the brokers of the cluster and its controller.

Versions: 1 whether brokers or controllers are asked for, of which a broker knows brokers only (KIP-919).
"""

from __future__ import annotations

from broker.requests.authorization import (
    CLUSTER_NAME,
    NOT_ASKED,
    Operation,
    ResourceType,
    authorized_operations,
)
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS, _CONTROLLERS = 1, 2


@api(ApiKey.DESCRIBE_CLUSTER, versions=(0, 1), needs_brokers=True)
def handle(call: Call[DescribeClusterRequest]) -> DescribeClusterResponse:
    request, broker = call.request, call.broker
    if request.endpoint_type == _CONTROLLERS:
        return _refused(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        code = ErrorCode.INVALID_REQUEST if call.version == 0 else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return _refused(code, f"Unsupported endpoint type {request.endpoint_type}")
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations:
        operations = 0
        if broker.authorizer.authorize(call.connection, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
            operations = authorized_operations(broker.authorizer, call.connection, ResourceType.CLUSTER, CLUSTER_NAME)
    nodes = broker.metadata_cache.snapshot.nodes(call.connection.listener_name)
    controller = broker.metadata_cache.controller_id
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=-1 if controller is None else controller,
        brokers=[
            DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in nodes
        ],
        cluster_authorized_operations=operations,
    )


def _refused(code: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=message, cluster_id="", controller_id=-1)
