"""DescribeConfigs (key 32, versions 0-4): configs of topics, groups, client metrics, this broker, its loggers.

A broker resource with an empty name is the cluster-wide dynamic default; another broker's id is refused.

Versions: 1 where a value comes from, and its synonyms, in place of whether it is a default (KIP-226); 2 a throttled
client waits by itself (KIP-219); 3 types and documentation (KIP-569); 4 flexible.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.config.admin import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    TOPIC_RESOURCE,
)
from broker.config.view import ConfigEntry, Source, client_metrics_entries, logger_entries
from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.config_resources import failure_of
from broker.requests.registry import Call, api
from controller.topic_names import check_topic_name
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_KNOWN_TYPES = (TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE)


def _error_form(call: Call[DescribeConfigsRequest], code: ErrorCode, message: str | None) -> DescribeConfigsResponse:
    text = message or code.message
    return DescribeConfigsResponse(results=[_failed(resource, code, text) for resource in call.request.resources])


def _failed(resource: DescribeConfigsResource, code: ErrorCode, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message or "",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


@api(ApiKey.DESCRIBE_CONFIGS, versions=(0, 4), error_form=_error_form)
def handle(call: Call[DescribeConfigsRequest]) -> DescribeConfigsResponse:
    known = (*_KNOWN_TYPES, GROUP_RESOURCE) if call.broker.config_admin.serves_groups else _KNOWN_TYPES
    if any(resource.resource_type not in known for resource in call.request.resources):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    results = []
    for resource in call.request.resources:
        try:
            entries = _entries(call, resource)
        except Exception as error:
            results.append(_failed(resource, *failure_of(error, resource)))
            continue
        wanted = set(resource.configuration_keys) if resource.configuration_keys else None
        results.append(
            DescribeConfigsResult(
                error_code=ErrorCode.NONE,
                error_message="",
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[_result(call, entry) for entry in entries if wanted is None or entry.name in wanted],
            )
        )
    return DescribeConfigsResponse(results=results)


def _entries(call: Call[DescribeConfigsRequest], resource: DescribeConfigsResource) -> Iterable[ConfigEntry]:
    broker, name = call.broker, resource.resource_name
    if resource.resource_type == TOPIC_RESOURCE:
        if not broker.authorizer.authorize(call.connection, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        check_topic_name(name)
        if not broker.metadata_cache.contains_topic(name):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return broker.config_view.topic_entries(broker.config_admin.stored(TOPIC_RESOURCE, name))
    if resource.resource_type == GROUP_RESOURCE:
        if not broker.authorizer.authorize(call.connection, Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, name):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if name == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return broker.config_view.group_entries(broker.config_admin.stored(GROUP_RESOURCE, name))
    if not broker.authorizer.authorize(call.connection, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if resource.resource_type == BROKER_RESOURCE:
        if name == "":
            return broker.config_view.default_broker_entries(broker.config_admin.stored(BROKER_RESOURCE, ""))
        expected = f"expected {broker.broker_id} or empty string"
        broker.config_admin.check_own_broker(name, "Broker", f"Unexpected broker id, {expected}, but received")
        return broker.config_view.broker_entries()
    if resource.resource_type == LOGGER_RESOURCE:
        if name == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        unexpected = f"Unexpected broker id, expected {broker.broker_id} but received"
        broker.config_admin.check_own_broker(name, "Broker", unexpected)
        return logger_entries()
    if name == "":
        raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    if broker.config_admin.serves_client_metrics:
        return client_metrics_entries(broker.config_admin.stored(CLIENT_METRICS_RESOURCE, name))
    raise ApiError(ErrorCode.INVALID_REQUEST, "Config type client-metrics is only supported on KRaft clusters")


def _result(call: Call[DescribeConfigsRequest], entry: ConfigEntry) -> DescribeConfigsResourceResult:
    result = DescribeConfigsResourceResult(
        name=entry.name, value=entry.value, read_only=entry.read_only, is_sensitive=entry.sensitive
    )
    version = call.version
    if version == 0:
        result.is_default = entry.source is Source.DEFAULT
        return result
    result.config_source = entry.source
    if call.request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
        ]
    if version >= 3:
        result.config_type = entry.type
        if entry.source is not Source.LOGGER:
            result.documentation = entry.documentation if call.request.include_documentation else None
    return result
