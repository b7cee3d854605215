"""CreatePartitions (key 37, versions 0-3): controller only; grow topics.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible; 3 a mutation quota refuses the request in place of
slowing it down (KIP-599).
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from broker.requests.authorization import Operation, ResourceType
from broker.requests.controller_only import require_controller
from broker.requests.registry import Call, api
from broker.topics.topic_admin import free
from controller.zk import paths
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def _error_form(call: Call[CreatePartitionsRequest], code: ErrorCode, message: str | None) -> CreatePartitionsResponse:
    names = dict.fromkeys(topic.name for topic in call.request.topics)
    return CreatePartitionsResponse(results=[_failed(name, code, message) for name in names])


def _failed(name: str, code: ErrorCode, message: str | None = None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)


@api(ApiKey.CREATE_PARTITIONS, versions=(0, 3), error_form=_error_form, needs_brokers=True)
def handle(call: Call[CreatePartitionsRequest]) -> None:
    require_controller(call)
    request, broker = call.request, call.broker
    counts = Counter(topic.name for topic in request.topics)
    failed: dict[str, CreatePartitionsTopicResult] = {}
    good: list[CreatePartitionsTopic] = []
    for topic in request.topics:
        name = topic.name
        if not paths.can_hold(name):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)  # for the request as a whole, as by Kafka
        if counts[name] > 1:
            failed[name] = _failed(name, ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
        elif not broker.authorizer.authorize(call.connection, Operation.ALTER, ResourceType.TOPIC, name):
            failed[name] = _failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif broker.zk.topic_marked_for_deletion(name):
            failed[name] = _failed(name, ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
        else:
            good.append(topic)

    def respond(results: dict[str, CreatePartitionsTopicResult]) -> None:
        call.respond(CreatePartitionsResponse(results=list({**failed, **results}.values())))

    charge = partial(call.charge_mutations, strict=call.version >= 3) if call.has_quotas else free
    if good:
        broker.topic_admin.create_partitions(good, request.timeout_ms, request.validate_only, respond, charge)
    else:
        respond({})
