"""What groups of both protocols have in common: an id, a lock, and offsets."""

from __future__ import annotations

from _thread import RLock
from threading import RLock as new_lock

from broker.groups.offsets.group_offsets import GroupOffsets


class GroupBase:
    """All access is under `lock`.

    A group that became one of the other protocol hands its lock and its offsets on: `is_replaced`, and dead as itself.
    """

    group_id: str
    lock: RLock
    offsets: GroupOffsets
    is_replaced: bool

    def __init__(self, group_id: str, successor_of: GroupBase | None = None) -> None:
        self.group_id = group_id
        self.is_replaced = False
        if successor_of is None:
            self.lock = new_lock()
            self.offsets = GroupOffsets(group_id)
        else:
            self.lock = successor_of.lock
            self.offsets = successor_of.offsets

    @property
    def is_dead(self) -> bool:
        """Unloaded, deleted or replaced."""
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """No members, and not dead."""
        raise NotImplementedError

    def die(self) -> None:
        """The last thing that happens to a group."""
        raise NotImplementedError

    def record_keys(self) -> list[bytes]:
        """Keys of the group's own records in the log, which tombstones must name to delete it."""
        raise NotImplementedError
