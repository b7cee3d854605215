"""Who may do what: the seam between handlers and an authorizer.

With no authorizer configured everything is allowed, and the authorized-operations fields of answers hold every
operation that the resource type supports.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

from network.server.connection_info import ConnectionInfo


class Operation(IntEnum):
    """ACL operations with their wire codes."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class ResourceType(IntEnum):
    """ACL resource types with their wire codes."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME = "kafka-cluster"
NOT_ASKED = -2147483648  # value of an authorized-operations field nobody asked for

SUPPORTED_OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}


class Authorizer(Protocol):
    """Decides; must not block for long, because handlers call it on their own thread."""

    allows_everything: bool
    """True when no rule exists at all, so that hot paths need not ask per topic."""

    def authorize(
        self,
        connection: ConnectionInfo,
        operation: Operation,
        resource: ResourceType,
        name: str,
        *,
        explicit: bool = True,
    ) -> bool:
        """Whether the caller may do `operation` on the resource. Not `explicit`: nobody asked for it, it is only
        looked at to fill an answer, or as one of several permissions that would do; then a denial is no news."""
        ...

    def authorize_any(self, connection: ConnectionInfo, operation: Operation, resource: ResourceType) -> bool:
        """Whether the caller may do `operation` on at least one resource of the type."""
        ...


class AllowEverything:
    """No `authorizer.class.name`: every request is allowed."""

    allows_everything = True

    def authorize(
        self,
        connection: ConnectionInfo,
        operation: Operation,
        resource: ResourceType,
        name: str,
        *,
        explicit: bool = True,
    ) -> bool:
        return True

    def authorize_any(self, connection: ConnectionInfo, operation: Operation, resource: ResourceType) -> bool:
        return True


def authorized_operations(authorizer: Authorizer, connection: ConnectionInfo, resource: ResourceType, name: str) -> int:
    """Bit field (bit n = operation code n) of what the caller may do with the resource."""
    bits = 0
    for operation in SUPPORTED_OPERATIONS[resource]:
        if authorizer.allows_everything or authorizer.authorize(connection, operation, resource, name, explicit=False):
            bits |= 1 << operation
    return bits
