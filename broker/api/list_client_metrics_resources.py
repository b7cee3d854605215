"""ListClientMetricsResources (key 74, version 0): the names of all subscriptions to client metrics.

Served with `odradek.client.telemetry.enable` only (KIP-1000); needs DESCRIBE_CONFIGS on the cluster.
"""

from __future__ import annotations

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from broker.telemetry.wiring import is_enabled
from network.protocol.api import ApiKey
from network.protocol.messages.list_client_metrics_resources import (
    ClientMetricsResource,
    ListClientMetricsResourcesRequest,
    ListClientMetricsResourcesResponse,
)


@api(ApiKey.LIST_CLIENT_METRICS_RESOURCES, versions=(0, 0), enabled=is_enabled)
def handle(call: Call[ListClientMetricsResourcesRequest]) -> ListClientMetricsResourcesResponse:
    require_cluster(call, Operation.DESCRIBE_CONFIGS)
    telemetry = call.broker.telemetry
    assert telemetry is not None
    names = telemetry.subscriptions.names()
    return ListClientMetricsResourcesResponse(
        client_metrics_resources=[ClientMetricsResource(name=name) for name in names]
    )
