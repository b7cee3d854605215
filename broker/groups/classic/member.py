"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from network.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.groups.classic.operations import DelayedHeartbeat

Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata in the member's order of preference."""


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


class SyncResult(NamedTuple):
    """An answer to SyncGroup."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


JoinCallback = Callable[[JoinResult], None]
SyncCallback = Callable[[SyncResult], None]


class Member:
    """What the group knows of a member; guarded by the group's lock.

    `join_callback` and `sync_callback` are set while the member waits for that answer. `is_new` until its first join
    answer. Timeouts are in ms.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "heartbeat",
        "is_new",
        "join_callback",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_callback",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.join_callback: JoinCallback | None = None
        self.sync_callback: SyncCallback | None = None
        self.is_new = False
        self.heartbeat: DelayedHeartbeat | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_awaiting_join(self) -> bool:
        return self.join_callback is not None

    @property
    def is_awaiting_sync(self) -> bool:
        return self.sync_callback is not None

    @property
    def counts_as_alive(self) -> bool:
        """Whether the member needs no heartbeat now: it waits for an answer of ours, and has had one before."""
        if self.is_new:
            return False
        return self.join_callback is not None or self.sync_callback is not None

    def metadata(self, protocol: str) -> bytes:
        """The metadata for `protocol`. Raises KeyError if the member does not support it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(protocol)

    def vote(self, candidates: set[str]) -> str:
        """The first of the member's protocols that is a candidate. Raises ValueError if none is."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise ValueError(f"member {self.member_id} supports none of {sorted(candidates)}")

    def __repr__(self) -> str:
        return f"Member({self.member_id!r}, instance={self.group_instance_id!r}, host={self.client_host!r})"
