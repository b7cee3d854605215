"""Configs of many resources in one request: each is answered for itself, whatever happens to the others."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from broker.config.admin import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.registry import Call
from network.protocol.errors import ApiError, ErrorCode, error_of

logger = logging.getLogger(__name__)


class _Resource(Protocol):
    resource_type: int
    resource_name: str


R = TypeVar("R", bound=_Resource)
A = TypeVar("A")


def alter_each(resources: Sequence[R], alter: Callable[[R], None], make: Callable[..., A]) -> list[A]:
    """Alter every resource and tell what became of it; `make` is the response's struct for one resource."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    answers = []
    for resource in resources:
        code, message = ErrorCode.NONE, None
        try:
            if counts[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            alter(resource)
        except Exception as error:
            code, message = failure_of(error, resource)
        answers.append(altered(resource, make, code, message))
    return answers


def altered(resource: _Resource, make: Callable[..., A], code: ErrorCode, message: str | None) -> A:
    """The answer for one resource: a failure always has a text."""
    return make(
        error_code=code,
        error_message=message if code is ErrorCode.NONE else message or code.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def failure_of(error: Exception, resource: _Resource) -> tuple[ErrorCode, str | None]:
    """What the resource's answer says of `error`. One that nobody has foreseen is logged, for the answer hides it."""
    if not isinstance(error, ApiError):
        logger.error("configs of %r (type %d)", resource.resource_name, resource.resource_type, exc_info=error)
    return error_of(error)


def authorize_alter_configs(call: Call[Any], resource_type: int, name: str) -> None:
    """Raises INVALID_REQUEST for a type that cannot be altered, or the authorization error of the resource."""
    authorizer, connection = call.broker.authorizer, call.connection
    if resource_type == TOPIC_RESOURCE:
        if not authorizer.authorize(connection, Operation.ALTER_CONFIGS, ResourceType.TOPIC, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return
    if resource_type == GROUP_RESOURCE and call.broker.config_admin.serves_groups:
        if not authorizer.authorize(connection, Operation.ALTER_CONFIGS, ResourceType.GROUP, name):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    if resource_type not in (BROKER_RESOURCE, CLIENT_METRICS_RESOURCE):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
    if not authorizer.authorize(connection, Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if resource_type == CLIENT_METRICS_RESOURCE and not call.broker.config_admin.serves_client_metrics:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics need KRaft")
