"""The requests of the classic protocol without the differences of their versions, and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from network.protocol.errors import ErrorCode

Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata in the member's order of preference."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """JoinGroup. Timeouts in ms.

    `require_known_member_id` (version 4): a dynamic member is first given an id. `skips_assignment` (version 9):
    the client understands a leader that must not assign.
    """

    group_id: str
    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    group_instance_id: str | None = None
    require_known_member_id: bool = True
    skips_assignment: bool = True
    reason: str | None = None


class JoinMember(NamedTuple):
    """A row of the member list that the leader gets."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """An answer to JoinGroup; the defaults are those of an error."""

    error: ErrorCode
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: tuple[JoinMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """SyncGroup; the leader's has the assignment of each member."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: Mapping[str, bytes] = field(default_factory=dict)


class SyncResult(NamedTuple):
    """An answer to SyncGroup."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """Heartbeat."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """One member of a LeaveGroup, by member id, by instance id, or by both."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(slots=True)
class LeaveResult:
    """The error of the whole and of each member, in the order of the request."""

    error: ErrorCode
    members: list[tuple[LeavingMember, ErrorCode]] = field(default_factory=list)


JoinCallback = Callable[[JoinResult], None]
SyncCallback = Callable[[SyncResult], None]
