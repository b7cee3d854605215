"""ListClientMetricsResources (key 74, version 0): the names of all subscriptions to clients' metrics (KIP-1000)."""

from __future__ import annotations

from network.protocol.fields import array, int16, int32, string
from network.protocol.message import Request, Response, Struct


class ListClientMetricsResourcesRequest(Request, key=74, versions=(0, 0), flexible=0):
    pass


class ClientMetricsResource(Struct):
    name: str = string()


class ListClientMetricsResourcesResponse(Response, key=74, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_metrics_resources: list[ClientMetricsResource] = array(ClientMetricsResource)
