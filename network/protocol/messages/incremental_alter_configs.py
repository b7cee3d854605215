"""IncrementalAlterConfigs (key 44, versions 0 to 1): set, delete, append to or subtract from single keys."""

from __future__ import annotations

from network.protocol.fields import array, boolean, int8, int16, int32, string
from network.protocol.message import Request, Response, Struct


class AlterableConfig(Struct):
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


class AlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class IncrementalAlterConfigsRequest(Request, key=44, versions=(0, 1), flexible=1):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


class IncrementalAlterConfigsResponse(Response, key=44, versions=(0, 1), flexible=1):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
