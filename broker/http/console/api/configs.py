"""Configurations of topics and brokers, with where each value comes from."""

from __future__ import annotations

from typing import Any

from broker.config.admin import BROKER_RESOURCE
from broker.config.view import Source
from network.client.cluster_client import ClusterClient
from network.client.connection import AuthenticationFailed, ConnectionFailed
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

SOURCES = {
    Source.TOPIC: "topic",
    Source.DYNAMIC_BROKER: "broker, dynamic",
    Source.DYNAMIC_DEFAULT: "cluster, dynamic",
    Source.STATIC: "broker's file",
    Source.DEFAULT: "default",
    Source.LOGGER: "broker's logger",
}
_TIMEOUT_MS = 3_000


def configs(client: ClusterClient, kind: int, name: str) -> Any:
    """Keys in order, or a text that says why there are none."""
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)],
        include_documentation=True,
    )
    try:
        if kind == BROKER_RESOURCE:
            answer = client.call_broker(int(name), request, _TIMEOUT_MS)
        else:
            answer = client.call_any(request, _TIMEOUT_MS)
    except AuthenticationFailed:
        raise
    except (ConnectionFailed, ApiError) as error:
        return str(error)
    (result,) = answer.results
    if result.error_code:
        return result.error_message or ErrorCode.of(result.error_code).message
    return [
        {
            "name": each.name,
            "value": None if each.is_sensitive else each.value,
            "sensitive": each.is_sensitive,
            "read_only": each.read_only,
            "source": SOURCES.get(each.config_source, "unknown"),
            "about": each.documentation,
        }
        for each in sorted(result.configs, key=lambda each: each.name)
    ]
