"""Which partitions of an internal topic this broker coordinates, and what is loaded of each.

| call | effect | ignored when |
|---|---|---|
| `begin_load` | requests see COORDINATOR_LOAD_IN_PROGRESS | a later epoch was seen; it is loaded and stays so |
| `finish_load` | the partition is owned | the load was overtaken by a later one, or by an unload |
| `abandon_load` | it is not owned | as above |
| `unload` | requests see NOT_COORDINATOR | a later epoch was seen |

The caller says when loading begins: Kafka marks a partition of transactions at its election, one of groups on the
thread that loads it. Which broker coordinates a group is said by the leader of its partition
(`internal_topic_names.partition_for`, `broker/api/find_coordinator.py`).
"""

from __future__ import annotations

import threading
from typing import Generic, NamedTuple, TypeVar

from network.protocol.errors import ErrorCode

T = TypeVar("T")
S = TypeVar("S")


class Owned(NamedTuple, Generic[S]):
    """What is loaded of a partition, and the leader epoch under which it is owned."""

    epoch: int
    loaded: S


class Ownership(Generic[T]):
    """Partitions by leader epoch. Thread-safe; `lock` also guards what is loaded, and is the last that is taken.

    `reloads`: whether a partition that is loaded is read again when it is elected at a later epoch. If it is not, it
    stays as it is.
    """

    def __init__(self, *, reloads: bool) -> None:
        self.lock = threading.RLock()
        self._reloads = reloads
        self._owned: dict[int, Owned[T]] = {}
        self._loading: dict[int, int] = {}
        # The latest epoch that was seen of each partition.
        self._epochs: dict[int, int] = {}

    # --- loading and unloading ---

    def begin_load(self, partition: int, epoch: int) -> bool:
        """Whether the caller has to load the partition."""
        with self.lock:
            if not self._take_epoch(partition, epoch):
                return False
            owned = self._owned.get(partition)
            if owned is not None and not self._reloads:
                self._owned[partition] = owned._replace(epoch=epoch)
                return False
            self._owned.pop(partition, None)
            self._loading[partition] = epoch
            return True

    def finish_load(self, partition: int, epoch: int, loaded: T) -> bool:
        """Own the partition; False if the load was overtaken."""
        with self.lock:
            if self._loading.get(partition) != epoch:
                return False
            del self._loading[partition]
            self._owned[partition] = Owned(epoch, loaded)
            return True

    def is_loading_at(self, partition: int, epoch: int) -> bool:
        """Whether the load that began at this epoch was not overtaken."""
        with self.lock:
            return self._loading.get(partition) == epoch

    def abandon_load(self, partition: int, epoch: int) -> None:
        """The load failed."""
        with self.lock:
            if self._loading.get(partition) == epoch:
                del self._loading[partition]

    def unload(self, partition: int, epoch: int | None) -> T | None:
        """Drop the partition and return what was loaded of it; None as epoch: the replica was deleted."""
        with self.lock:
            if epoch is None:
                self._epochs.pop(partition, None)
            elif not self._take_epoch(partition, epoch):
                return None
            self._loading.pop(partition, None)
            owned = self._owned.pop(partition, None)
            return None if owned is None else owned.loaded

    def _take_epoch(self, partition: int, epoch: int) -> bool:
        if epoch < self._epochs.get(partition, -1):
            return False
        self._epochs[partition] = epoch
        return True

    # --- look-up ---

    def get(self, partition: int) -> Owned[T] | None:
        """The partition if it is owned; the lock must be held while what is loaded is looked at."""
        with self.lock:
            return self._owned.get(partition)

    def error(self, partition: int) -> ErrorCode:
        """COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR or NONE."""
        with self.lock:
            if partition in self._loading:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if partition in self._owned else ErrorCode.NOT_COORDINATOR

    def all(self) -> list[Owned[T]]:
        """Every owned partition; the lock must be held while what is loaded is looked at."""
        with self.lock:
            return list(self._owned.values())

    @property
    def is_loading(self) -> bool:
        """Whether any partition is being loaded."""
        with self.lock:
            return bool(self._loading)
