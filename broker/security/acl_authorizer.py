"""Kafka's `AclAuthorizer`: super users, then the ACLs in ZooKeeper, by the rules in `acl_index.py`.

Every decision goes to `kafka.authorizer.logger`. Denials of what was asked for are logged at INFO, permissions at
DEBUG; what is only asked to filter an answer, or to fill an authorized-operations field, is logged at a level below
DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.requests.authorization import Operation, ResourceType
from broker.security.acl_index import AclIndex
from broker.security.acl_store import AclConflictError, AclStore
from broker.security.acls import (
    LITERAL,
    OPERATION_NAMES,
    PERMISSION_NAMES,
    PREFIXED,
    TYPE_NAMES,
    Binding,
    BindingFilter,
    Entry,
    Pattern,
    check_principal,
)
from controller.zk.session import ZkError
from network.protocol.api import API
from network.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from controller.zk.client import ZkClient
    from network.server.connection_info import ConnectionInfo
    from timer.clock import Clock
    from timer.worker import Workers

AUTHORIZER_LOGGER: Final = "kafka.authorizer.logger"
TRACE: Final = logging.DEBUG - 5

logger = logging.getLogger(AUTHORIZER_LOGGER)

SUPER_USERS: Final = "super.users"
ALLOW_IF_NO_ACL: Final = "allow.everyone.if.no.acl.found"
ZOOKEEPER_URL: Final = "authorizer.zookeeper.url"


def parse_super_users(text: str) -> frozenset[str]:
    """Principals separated by `;`. Raises ValueError."""
    return frozenset(check_principal(each.strip()) for each in text.split(";") if each.strip())


class AclAuthorizer:
    """An `Authorizer` with ACLs that can be described and changed (`AclAdmin`)."""

    allows_everything = False

    def __init__(
        self,
        zk: ZkClient,
        clock: Clock,
        *,
        super_users: frozenset[str] = frozenset(),
        allow_if_no_acl: bool = False,
        knows_prefixes: bool = True,
        workers: Workers | None = None,
    ) -> None:
        """`knows_prefixes`: `inter.broker.protocol.version` is 2.0-IV1 or newer, so every broker understands them."""
        self._super_users = super_users
        self._knows_prefixes = knows_prefixes
        self._index = AclIndex(allow_if_no_acl)
        self._store = AclStore(zk, clock, self._index.put, workers)

    def start(self) -> None:
        """Read the ACLs and follow them. Raises `ZkError` and ValueError."""
        self._store.start()

    def close(self) -> None:
        """Follow no more."""
        self._store.close()

    # ------------------------------------------------------------------ decisions

    def authorize(
        self,
        connection: ConnectionInfo,
        operation: Operation,
        resource: ResourceType,
        name: str,
        *,
        explicit: bool = True,
    ) -> bool:
        principal = connection.principal
        allowed = principal in self._super_users or self._index.decide(
            principal, connection.client_host, operation, resource, name
        )
        self._log(connection, operation, resource, f"LITERAL:{name}", allowed, explicit)
        return allowed

    def authorize_any(self, connection: ConnectionInfo, operation: Operation, resource: ResourceType) -> bool:
        principal = connection.principal
        if principal in self._super_users:
            return True
        allowed = self._index.decide_any(principal, connection.client_host, operation, resource)
        self._log(connection, operation, resource, "UNKNOWN:NONE", allowed, True, 0)
        return allowed

    def _log(
        self,
        connection: ConnectionInfo,
        operation: Operation,
        resource: ResourceType,
        what: str,
        allowed: bool,
        explicit: bool,
        count: int = 1,
    ) -> None:
        level = TRACE if not explicit else logging.DEBUG if allowed else logging.INFO
        if not logger.isEnabledFor(level):
            return
        api = API.get(connection.api_key)
        logger.log(
            level,
            "Principal = %s is %s Operation = %s from host = %s on resource = %s:%s for request = %s "
            "with resourceRefCount = %d",
            connection.principal,
            "Allowed" if allowed else "Denied",
            OPERATION_NAMES[operation],
            connection.client_host,
            TYPE_NAMES[resource],
            what,
            connection.api_key if api is None else api.name,
            count,
        )

    # ------------------------------------------------------------------ ACLs

    def acls(self, wanted: BindingFilter) -> dict[Pattern, list[Entry]]:
        """The ACLs that a filter means."""
        found: dict[Pattern, list[Entry]] = {}
        for pattern, entries in self._index.snapshot().items():
            if wanted.pattern.admits(pattern):
                chosen = [entry for entry in sorted(entries) if wanted.entry.admits(entry)]
                if chosen:
                    found[pattern] = chosen
        return found

    def create_acls(self, bindings: Sequence[Binding]) -> list[ApiError | None]:
        """Add ACLs; one that is there already is no error. What went wrong, for each."""
        errors: list[ApiError | None] = [self._fault(binding) for binding in bindings]
        by_pattern: dict[Pattern, list[int]] = {}
        for number, binding in enumerate(bindings):
            if errors[number] is None:
                by_pattern.setdefault(binding.pattern, []).append(number)
        for pattern, numbers in by_pattern.items():
            added = frozenset(bindings[number].entry for number in numbers)
            error = _failure_of(partial(self._store.change, pattern, added.union))
            for number in numbers:
                errors[number] = error
        return errors

    def _fault(self, binding: Binding) -> ApiError | None:
        pattern, entry = binding
        if (
            pattern.resource_type not in TYPE_NAMES
            or pattern.pattern_type not in (LITERAL, PREFIXED)
            or entry.operation not in OPERATION_NAMES
            or entry.permission not in PERMISSION_NAMES
            or (pattern.pattern_type == PREFIXED and not self._knows_prefixes)
            or "/" in pattern.name
        ):
            return ApiError(ErrorCode.INVALID_REQUEST, "Failed to create ACL")
        try:
            check_principal(entry.principal)
        except ValueError:
            return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return None

    def delete_acls(self, filters: Sequence[BindingFilter]) -> list[list[tuple[Binding, ApiError | None]]]:
        """Remove the ACLs that each filter means, and what went wrong; an ACL stands under its first filter."""
        patterns = dict.fromkeys(self._store.patterns())
        for wanted in filters:
            patterns.update(dict.fromkeys(wanted.pattern.exact()))
        results: list[list[tuple[Binding, ApiError | None]]] = [[] for _ in filters]
        for pattern in patterns:
            concerned = [number for number, wanted in enumerate(filters) if wanted.pattern.admits(pattern)]
            if concerned and "/" not in pattern.name and pattern.name:
                self._delete(pattern, filters, concerned, results)
        return results

    def _delete(
        self,
        pattern: Pattern,
        filters: Sequence[BindingFilter],
        concerned: Iterable[int],
        results: list[list[tuple[Binding, ApiError | None]]],
    ) -> None:
        removed: dict[Entry, int] = {}

        def without(entries: frozenset[Entry]) -> frozenset[Entry]:
            removed.clear()
            for entry in sorted(entries):
                for number in concerned:
                    if filters[number].entry.admits(entry):
                        removed[entry] = number
                        break
            return entries - removed.keys()

        error = _failure_of(partial(self._store.change, pattern, without))
        for entry, number in removed.items():
            results[number].append((Binding(pattern, entry), error))


def _failure_of(change: Callable[[], None]) -> ApiError | None:
    try:
        change()
    except (ZkError, AclConflictError, ValueError) as error:
        logger.error("an ACL could not be changed: %s", error)
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return None
