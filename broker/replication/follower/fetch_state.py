"""State of one partition in a replica fetcher."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from broker.cluster.metadata_cache import Node


class InitialFetchState(NamedTuple):
    """How a follower starts. `topic_id` is the zero uuid if there is none."""

    topic_id: bytes
    leader: Node
    current_leader_epoch: int
    init_offset: int


class ReplicaState(Enum):
    TRUNCATING = "truncating"
    FETCHING = "fetching"


@dataclass(frozen=True, slots=True)
class PartitionFetchState:
    """Immutable; every step of the fetcher makes a new one.

    `lag` is unknown (`None`) until the first answer. `delay_until_ms` is a monotonic time until which the partition
    rests, 0 if it does not.
    """

    topic_id: bytes
    fetch_offset: int
    lag: int | None
    current_leader_epoch: int
    delay_until_ms: int
    state: ReplicaState
    last_fetched_epoch: int = -1

    @property
    def is_replica_in_sync(self) -> bool:
        return self.lag is not None and self.lag <= 0

    def is_delayed(self, now_ms: int) -> bool:
        return self.delay_until_ms > now_ms

    def is_ready(self, now_ms: int) -> bool:
        return self.state is ReplicaState.FETCHING and not self.is_delayed(now_ms)

    def is_truncating(self, now_ms: int) -> bool:
        return self.state is ReplicaState.TRUNCATING and not self.is_delayed(now_ms)

    def with_(self, **changes: object) -> PartitionFetchState:
        return replace(self, **changes)  # type: ignore[arg-type]
