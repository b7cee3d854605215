"""AlterConfigs (key 33, versions 0-2): replace all overrides of a resource. Any broker answers.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible.
"""

from __future__ import annotations

from functools import partial

from broker.config.admin import CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from broker.requests.config_resources import alter_each, altered, authorize_alter_configs
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def _error_form(call: Call[AlterConfigsRequest], code: ErrorCode, message: str | None) -> AlterConfigsResponse:
    make = AlterConfigsResourceResponse
    return AlterConfigsResponse(responses=[altered(each, make, code, message) for each in call.request.resources])


@api(ApiKey.ALTER_CONFIGS, versions=(0, 2), error_form=_error_form)
def handle(call: Call[AlterConfigsRequest]) -> AlterConfigsResponse:
    alter = partial(_alter, call)
    return AlterConfigsResponse(responses=alter_each(call.request.resources, alter, AlterConfigsResourceResponse))


def _alter(call: Call[AlterConfigsRequest], resource: AlterConfigsResource) -> None:
    overrides: dict[str, str] = {}
    for config in resource.configs:
        if config.name in overrides:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        if config.value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {config.name}")
        overrides[config.name] = config.value
    admin, validate_only = call.broker.config_admin, call.request.validate_only
    authorize_alter_configs(call, resource.resource_type, resource.resource_name)
    if resource.resource_type == TOPIC_RESOURCE:
        admin.write_topic(resource.resource_name, overrides, validate_only=validate_only)
    elif resource.resource_type == GROUP_RESOURCE:
        admin.write_group(resource.resource_name, overrides, validate_only=validate_only)
    elif resource.resource_type == CLIENT_METRICS_RESOURCE:
        admin.write_client_metrics(resource.resource_name, overrides, validate_only=validate_only)
    else:
        admin.write_broker(resource.resource_name, overrides, validate_only=validate_only)
