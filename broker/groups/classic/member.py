"""One member of a classic group."""

from __future__ import annotations

from broker.groups.classic.requests import JoinCallback, Protocols, SyncCallback
from timer.purgatory import DelayedOperation


class Member:
    """What the group knows of a member; guarded by the group's lock.

    `join_callback` and `sync_callback` are set while the member waits for that answer. `is_new` until its first join
    answer. `heartbeat` is the timer of its session, `watched_id` the id that it had when this began. Timeouts in ms.
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
        "watched_id",
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
        self.heartbeat: DelayedOperation | None = None
        self.watched_id = ""

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_awaiting_join(self) -> bool:
        return self.join_callback is not None

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
