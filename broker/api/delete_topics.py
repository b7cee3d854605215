"""DeleteTopics (key 20, versions 0-6): controller only.

Every entry of the request has its answer, in the request's order, also when two mean the same topic. An answer to a
name carries no id; none has a message, for which version 5 made room.

Versions: 1 throttle time; 2 a throttled client waits by itself (KIP-219); 3 TOPIC_DELETION_DISABLED, for which older
versions get INVALID_REQUEST; 4 flexible; 5 room for error messages, and a mutation quota refuses the request (KIP-599);
6 topics by id (KIP-516).
"""

from __future__ import annotations

from functools import partial

from broker.requests.authorization import Operation, ResourceType
from broker.requests.controller_only import require_controller
from broker.requests.registry import Call, api
from broker.topics.topic_admin import free
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from network.protocol.uuids import ZERO_UUID


def _error_form(call: Call[DeleteTopicsRequest], code: ErrorCode, message: str | None) -> DeleteTopicsResponse:
    if call.version >= 6:
        answers = [
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=None)
            for topic in call.request.topics
        ]
    else:
        answers = [
            DeletableTopicResult(name=name, error_code=code, error_message=None) for name in call.request.topic_names
        ]
    return DeleteTopicsResponse(responses=answers)


@api(ApiKey.DELETE_TOPICS, versions=(0, 6), error_form=_error_form, needs_brokers=True)
def handle(call: Call[DeleteTopicsRequest]) -> None:
    require_controller(call)
    request, broker = call.request, call.broker
    if not broker.config.get_bool("delete.topic.enable"):
        code = ErrorCode.TOPIC_DELETION_DISABLED if call.version >= 3 else ErrorCode.INVALID_REQUEST
        raise ApiError(code)
    entries: list[DeletableTopicResult] = []
    good: dict[str, list[DeletableTopicResult]] = {}
    for name, topic_id in _asked(call):
        entry = DeletableTopicResult(name=name, topic_id=topic_id, error_message=None)
        entries.append(entry)
        error = _refusal(call, name, by_id=topic_id != ZERO_UUID)
        if error is not None:
            entry.error_code = error
            if name is not None and topic_id != ZERO_UUID and not _allowed(call, Operation.DESCRIBE, name):
                entry.name = None
        else:
            assert name is not None
            good.setdefault(name, []).append(entry)

    def respond(errors: dict[str, ErrorCode]) -> None:
        for name, error in errors.items():
            for entry in good[name]:
                entry.error_code = error
        call.respond(DeleteTopicsResponse(responses=entries))

    charge = partial(call.charge_mutations, strict=call.version >= 5) if call.has_quotas else free
    if good:
        broker.topic_admin.delete(list(good), request.timeout_ms, respond, charge)
    else:
        respond({})


def _asked(call: Call[DeleteTopicsRequest]) -> list[tuple[str | None, bytes]]:
    request = call.request
    if call.version < 6:
        return [(name, ZERO_UUID) for name in request.topic_names]
    asked: list[tuple[str | None, bytes]] = []
    for topic in request.topics:
        if topic.name is not None and topic.topic_id != ZERO_UUID:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Topic name and topic ID can not both be specified.")
        if topic.name is not None:
            asked.append((topic.name, ZERO_UUID))
        else:
            asked.append((call.broker.metadata_cache.topic_name(topic.topic_id), topic.topic_id))
    return asked


def _refusal(call: Call[DeleteTopicsRequest], name: str | None, *, by_id: bool) -> ErrorCode | None:
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if by_id and not _allowed(call, Operation.DESCRIBE, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if not _allowed(call, Operation.DELETE, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if not call.broker.metadata_cache.contains_topic(name):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return None


def _allowed(call: Call[DeleteTopicsRequest], operation: Operation, name: str) -> bool:
    return call.broker.authorizer.authorize(call.connection, operation, ResourceType.TOPIC, name)
