"""What the APIs between brokers have in common: the permission, and the check of the broker epoch."""

from __future__ import annotations

from typing import Any

from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.registry import Call
from network.protocol.errors import ApiError, ErrorCode


def require_cluster_action(call: Call[Any]) -> None:
    """Raises CLUSTER_AUTHORIZATION_FAILED unless the caller may act as a broker."""
    require_cluster(call, Operation.CLUSTER_ACTION)


def require_broker(call: Call[Any]) -> None:
    """The same for what only brokers send, and no quota is for."""
    require_cluster_action(call)
    call.exempt()


def require_cluster(call: Call[Any], operation: Operation) -> None:
    """Raises CLUSTER_AUTHORIZATION_FAILED unless the caller may do `operation` on the cluster."""
    if not call.broker.authorizer.authorize(call.connection, operation, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def is_stale_broker_epoch(call: Call[Any], request_epoch: int) -> bool:
    """Whether the controller addressed an earlier life of this broker id.

    -1 means "do not check". A larger epoch is accepted: this broker may not have noticed its new registration yet.
    """
    return request_epoch != -1 and request_epoch < call.broker.broker_epoch
