"""AlterConfigs (key 33, versions 0-2): replace all overrides of a resource. Any broker answers.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from broker.config.admin import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from broker.requests.authorization import CLUSTER_NAME, ResourceType
from broker.requests.authorization import Operation as AclOperation
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode, error_of
from network.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def _error_form(call: Call[AlterConfigsRequest], code: ErrorCode, message: str | None) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=[_answer(resource, code, message) for resource in call.request.resources])


def _answer(
    resource: AlterConfigsResource, code: ErrorCode = ErrorCode.NONE, message: str | None = None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message if code is ErrorCode.NONE else message or code.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


@api(ApiKey.ALTER_CONFIGS, versions=(0, 2), error_form=_error_form)
def handle(call: Call[AlterConfigsRequest]) -> AlterConfigsResponse:
    counts = Counter((resource.resource_type, resource.resource_name) for resource in call.request.resources)
    answers = []
    for resource in call.request.resources:
        try:
            if counts[(resource.resource_type, resource.resource_name)] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _alter(call, resource)
        except Exception as error:
            code, message = error_of(error)
            answers.append(_answer(resource, code, message))
            if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                raise
        else:
            answers.append(_answer(resource))
    return AlterConfigsResponse(responses=answers)


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
    else:
        admin.write_broker(resource.resource_name, overrides, validate_only=validate_only)


def authorize_alter_configs(call: Call[Any], resource_type: int, name: str) -> None:
    """Raises INVALID_REQUEST for a type that cannot be altered, or the authorization error of the resource."""
    authorizer, connection = call.broker.authorizer, call.connection
    if resource_type == TOPIC_RESOURCE:
        if not authorizer.authorize(connection, AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return
    if resource_type == GROUP_RESOURCE and call.broker.config_admin.serves_groups:
        if not authorizer.authorize(connection, AclOperation.ALTER_CONFIGS, ResourceType.GROUP, name):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    if resource_type not in (BROKER_RESOURCE, CLIENT_METRICS_RESOURCE):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
    if not authorizer.authorize(connection, AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if resource_type == CLIENT_METRICS_RESOURCE:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics need KRaft")
