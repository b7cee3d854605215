"""CreateTopics (key 19, versions 0-7): controller only.

-1 partitions or replicas mean the broker's defaults. Answered when every partition has a leader in this broker's
metadata; REQUEST_TIMED_OUT means that the creation goes on.
A name that is there twice is refused, each of its entries with an answer of its own.

Versions: 1 checks without creating, and error messages; 2 throttle time; 3 a throttled client waits by itself
(KIP-219); 4 clients may send -1 for the defaults (KIP-464); 5 flexible, and the resulting configs (KIP-525); 6 a
mutation quota refuses the request (KIP-599); 7 the topic's id.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.controller_only import require_controller
from broker.requests.registry import Call, api
from broker.topics.topic_admin import Charge, free
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_METADATA_TOPIC = "__cluster_metadata"


def _error_form(call: Call[CreateTopicsRequest], code: ErrorCode, message: str | None) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_failed(topic.name, code, message or "") for topic in call.request.topics])


def _failed(name: str, code: ErrorCode, message: str | None = None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message, configs=[])


@api(ApiKey.CREATE_TOPICS, versions=(0, 7), error_form=_error_form, needs_brokers=True)
def handle(call: Call[CreateTopicsRequest]) -> None:
    require_controller(call)
    request = call.request
    counts = Counter(topic.name for topic in request.topics)
    failed: dict[str, CreatableTopicResult] = {}
    good: list[CreatableTopic] = []
    for topic in request.topics:
        name = topic.name
        if name == _METADATA_TOPIC:
            failed[name] = _failed(name, ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        elif counts[name] > 1:
            failed[name] = _failed(name, ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
        elif not _may_create(call, name):
            failed[name] = _failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
        else:
            good.append(topic)

    def respond(results: dict[str, CreatableTopicResult]) -> None:
        for topic in good:
            _finish(call, topic, results[topic.name])
        everything = {**failed, **results}
        for name, result in failed.items():
            if not _may_see_configs(call, name):
                result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        call.respond(CreateTopicsResponse(topics=[everything[topic.name] for topic in request.topics]))

    if good:
        call.broker.topic_admin.create(good, request.timeout_ms, request.validate_only, respond, _charge(call))
    else:
        respond({})


def _charge(call: Call[CreateTopicsRequest]) -> Charge:
    return partial(call.charge_mutations, strict=call.version >= 6) if call.has_quotas else free


def _finish(call: Call[CreateTopicsRequest], topic: CreatableTopic, result: CreatableTopicResult) -> None:
    if result.error_code != ErrorCode.NONE:
        result.num_partitions = result.replication_factor = -1
        result.configs = []
        return
    if not _may_see_configs(call, topic.name):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        result.num_partitions = result.replication_factor = -1
        result.configs = []
        return
    overrides = {entry.name: entry.value for entry in topic.configs if entry.value is not None}
    result.configs = [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in call.broker.config_view.topic_entries(overrides)
    ]


def _may_see_configs(call: Call[CreateTopicsRequest], name: str) -> bool:
    authorizer = call.broker.authorizer
    return authorizer.allows_everything or authorizer.authorize(
        call.connection, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name, explicit=False
    )


def _may_create(call: Call[CreateTopicsRequest], name: str) -> bool:
    authorizer, connection = call.broker.authorizer, call.connection
    return authorizer.authorize(
        connection, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, explicit=False
    ) or authorizer.authorize(connection, Operation.CREATE, ResourceType.TOPIC, name)
