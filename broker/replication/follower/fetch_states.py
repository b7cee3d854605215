"""The partitions of a fetcher, which of them have changed, and what is asked of the leader for each.

With thousands of partitions nearly all are as they were at the last fetch, so a round looks only at those that changed
or are not settled: that wait, are to be truncated, are held back, or lag, so that they may be. Every few seconds it
looks at all: retention may have raised a log start without anybody here being told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from broker.replication.follower.fetch_state import PartitionFetchState
from broker.replication.results import FetchPartitionData
from log.topic_partition import TopicPartition

LOOK_AT_ALL_MS = 5_000

Item = Callable[[TopicPartition, PartitionFetchState, int], FetchPartitionData | None]
"""What is asked for a partition at a (monotonic) time; None if it rests."""


class FetchStates(dict[TopicPartition, PartitionFetchState]):
    """In the order in which they are asked for. Guarded by the fetcher's lock; changed by the methods here only."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: dict[TopicPartition, None] = {}
        """Since the last round, in the order of the changes."""

    def __setitem__(self, tp: TopicPartition, state: PartitionFetchState) -> None:
        super().__setitem__(tp, state)
        self.changed[tp] = None

    def pop(self, tp: TopicPartition, *default: Any) -> Any:
        """As a dict's."""
        self.changed[tp] = None
        return super().pop(tp, *default)

    def put_last(self, tp: TopicPartition, state: PartitionFetchState) -> None:
        """Store, and move to the end of the order, so that busy partitions do not starve the others."""
        super().pop(tp, None)
        self[tp] = state


class Wanted:
    """What is asked of the leader, kept up to date. Used by the fetcher's rounds, under its lock."""

    def __init__(self, states: FetchStates, item: Item) -> None:
        self._states = states
        self._item = item
        self.partitions: dict[TopicPartition, FetchPartitionData] = {}
        # Sets that keep an order, so that one seed of a simulation is one sequence of requests.
        self._unsettled: dict[TopicPartition, None] = {}
        self._changes: dict[TopicPartition, None] = {}
        self._all_again_ms = 0

    def unsettled(self) -> list[tuple[TopicPartition, PartitionFetchState]]:
        """Those that may have to be truncated: what has changed or is not fetched."""
        states = self._states
        return [(tp, state) for tp in self._unsettled | states.changed if (state := states.get(tp)) is not None]

    def update(self, now_ms: int) -> None:
        """Bring `partitions` up to date."""
        states, wanted = self._states, self.partitions
        looked_at: Collection[TopicPartition] = self._unsettled | states.changed
        if now_ms >= self._all_again_ms:
            self._all_again_ms = now_ms + LOOK_AT_ALL_MS
            looked_at = [*states, *(tp for tp in looked_at if tp not in states)]
        states.changed.clear()
        for tp in looked_at:
            state = states.get(tp)
            item = None if state is None else self._item(tp, state, now_ms)
            self._unsettled.pop(tp, None)
            if state is not None and (item is None or not state.is_replica_in_sync):
                self._unsettled[tp] = None  # one that lags may be held back by a throttle at any time
            if wanted.get(tp) != item:
                wanted.pop(tp, None)
                if item is not None:
                    wanted[tp] = item
                self._changes[tp] = None

    def take_changes(self) -> list[TopicPartition]:
        """Partitions of which something else, or nothing any more, is asked than when this was called last."""
        changes, self._changes = list(self._changes), {}
        return changes
