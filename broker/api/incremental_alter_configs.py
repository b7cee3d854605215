"""IncrementalAlterConfigs (key 44, versions 0-1): set, delete, append to and subtract from overrides of a resource.

Logger resources are applied at once and not stored.

Versions: 1 flexible.
"""

from __future__ import annotations

from functools import partial

from broker.config import loggers
from broker.config.admin import (
    APPEND,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    DELETE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    SET,
    SUBTRACT,
    TOPIC_RESOURCE,
    Operation,
)
from broker.config.broker_keys import BROKER_KEYS
from broker.config.topic_keys import TOPIC_KEYS
from broker.requests.authorization import Operation as AclOperation
from broker.requests.cluster_action import require_cluster
from broker.requests.config_resources import alter_each, altered, authorize_alter_configs
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def _error_form(
    call: Call[IncrementalAlterConfigsRequest], code: ErrorCode, message: str | None
) -> IncrementalAlterConfigsResponse:
    make = AlterConfigsResourceResponse
    answers = [altered(each, make, code, message) for each in call.request.resources]
    return IncrementalAlterConfigsResponse(responses=answers)


@api(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), error_form=_error_form)
def handle(call: Call[IncrementalAlterConfigsRequest]) -> IncrementalAlterConfigsResponse:
    answers = alter_each(call.request.resources, partial(_alter, call), AlterConfigsResourceResponse)
    return IncrementalAlterConfigsResponse(responses=answers)


def _operations(resource: AlterConfigsResource) -> list[Operation]:
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    operations = []
    for config in resource.configs:
        if config.config_operation not in (SET, DELETE, APPEND, SUBTRACT):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {config.config_operation}")
        if config.value is None and config.config_operation != DELETE:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {config.name}")
        operations.append(Operation(config.name, config.config_operation, config.value))
    return operations


def _alter(call: Call[IncrementalAlterConfigsRequest], resource: AlterConfigsResource) -> None:
    operations = _operations(resource)
    admin, name, validate_only = call.broker.config_admin, resource.resource_name, call.request.validate_only
    if resource.resource_type == LOGGER_RESOURCE:
        expected = f"Expected {call.broker.broker_id}"
        admin.check_own_broker(name, "Node", f"Unexpected node id. {expected}, but received")
        require_cluster(call, AclOperation.ALTER_CONFIGS)
        _alter_loggers(operations, validate_only=validate_only)
        return
    authorize_alter_configs(call, resource.resource_type, name)
    if resource.resource_type == TOPIC_RESOURCE:
        stored = admin.stored(TOPIC_RESOURCE, name)
        admin.write_topic(name, admin.apply(stored, operations, TOPIC_KEYS), validate_only=validate_only)
    elif resource.resource_type == GROUP_RESOURCE:
        changed = admin.apply_plain(GROUP_RESOURCE, name, operations)
        admin.write_group(name, changed, validate_only=validate_only)
    elif resource.resource_type == CLIENT_METRICS_RESOURCE:
        changed = admin.apply_plain(CLIENT_METRICS_RESOURCE, name, operations)
        admin.write_client_metrics(name, changed, validate_only=validate_only)
    else:
        stored = admin.stored(BROKER_RESOURCE, name)
        admin.write_broker(name, admin.apply(stored, operations, BROKER_KEYS), validate_only=validate_only)


def _alter_loggers(operations: list[Operation], *, validate_only: bool) -> None:
    for name, kind, value in operations:
        if kind in (APPEND, SUBTRACT):
            what = "APPEND" if kind == APPEND else "SUBTRACT"
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{what} operation is not allowed for the BROKER_LOGGER resource")
        loggers.check(name)
        if kind == SET:
            loggers.check_level(name, value or "")
        elif name == loggers.ROOT:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    if not validate_only:
        for name, kind, value in operations:
            loggers.set_level(name, value if kind == SET else None)
