"""FindCoordinator (key 10, versions 0-6): which broker coordinates a group or a transactional id.

The internal topic is created when it is missing.

Versions: 1 key type, error message and throttle time; 2 a throttled client waits by itself (KIP-219); 3 flexible;
4 many keys, each with its own answer (KIP-699); 5 TRANSACTION_ABORTABLE (KIP-890); 6 share groups, which ZooKeeper mode
does not have.
"""

from __future__ import annotations

from broker.coordinator.internal_topic_names import OFFSETS_TOPIC, TRANSACTION_TOPIC, partition_for
from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.group_checks import may
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_TYPES = {
    _GROUP: (OFFSETS_TOPIC, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    _TRANSACTION: (
        TRANSACTION_TOPIC,
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}


def _error_form(call: Call[FindCoordinatorRequest], code: ErrorCode, message: str | None) -> FindCoordinatorResponse:
    keys = call.request.coordinator_keys if call.version >= 4 else [call.request.key]
    return _response(call, [_failed(key, code, message) for key in keys])


@api(ApiKey.FIND_COORDINATOR, versions=(0, 6), error_form=_error_form, needs_brokers=True)
def handle(call: Call[FindCoordinatorRequest]) -> FindCoordinatorResponse:
    request, version = call.request, call.version
    if request.key_type == _SHARE and version >= 6:
        if not may(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    if request.key_type == _SHARE and version >= 4:
        raise ApiError(ErrorCode.INVALID_REQUEST, "")
    if request.key_type not in _TYPES:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    keys = request.coordinator_keys if version >= 4 else [request.key]
    return _response(call, [_find(call, request.key_type, key) for key in keys])


def _find(call: Call[FindCoordinatorRequest], key_type: int, key: str) -> Coordinator:
    topic, resource, denied = _TYPES[key_type]
    if not may(call, Operation.DESCRIBE, resource, key):
        return _failed(key, denied)
    cache = call.broker.metadata_cache
    if not cache.contains_topic(topic):
        call.broker.auto_topic_creation.create([topic])
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    state = cache.partition_state(topic, _partition(call, key_type, topic, key))
    node = None
    if state is not None and state.leader >= 0:
        node = cache.broker_node(state.leader, call.connection.listener_name)
    if node is None:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port)


def _partition(call: Call[FindCoordinatorRequest], key_type: int, topic: str, key: str) -> int:
    if key_type == _GROUP:
        return call.broker.group_coordinator.partition_for(key)
    return partition_for(key, call.broker.metadata_cache.partition_count(topic) or 1)


def _failed(key: str, error: ErrorCode, message: str | None = None) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=-1,
        host="",
        port=-1,
        error_code=error,
        error_message=error.message if message is None else message,
    )


def _response(call: Call[FindCoordinatorRequest], found: list[Coordinator]) -> FindCoordinatorResponse:
    if call.version >= 4:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message or "NONE",
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
