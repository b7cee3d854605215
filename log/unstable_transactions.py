"""The transactions of one log that bound its last stable offset (KIP-98)."""

from __future__ import annotations


class UnstableTransactions:
    """Those that are open, and those that have ended with a marker that is not below the high watermark yet. The owner
    makes one with the log's first transaction: most logs never have any."""

    __slots__ = ("_ongoing", "_unreplicated")

    def __init__(self) -> None:
        # Open ones, first offset to producer id, ascending: new ones have higher offsets than all before.
        self._ongoing: dict[int, int] = {}
        # Ended ones, first offset to marker offset, ascending.
        self._unreplicated: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._ongoing or self._unreplicated)

    @property
    def has_unreplicated(self) -> bool:
        """Whether one has ended and is not below the high watermark yet."""
        return bool(self._unreplicated)

    @property
    def first_offset(self) -> int | None:
        """Where the oldest one begins."""
        ongoing = next(iter(self._ongoing), None)
        unreplicated = next(iter(self._unreplicated), None)
        if ongoing is None:
            return unreplicated
        return ongoing if unreplicated is None else min(ongoing, unreplicated)

    @property
    def oldest_producer(self) -> int | None:
        """Whose the oldest open one is."""
        return next(iter(self._ongoing.values()), None)

    def first_offset_of_others(self, producer_id: int) -> int | None:
        """Where the oldest open one of any other producer begins."""
        return next((first for first, owner in self._ongoing.items() if owner != producer_id), None)

    def begin(self, first_offset: int, producer_id: int) -> None:
        self._ongoing = _with(self._ongoing, first_offset, producer_id)

    def end(self, first_offset: int, marker_offset: int) -> bool:
        """A marker has been written. False if no transaction is open from there."""
        if self._ongoing.pop(first_offset, None) is None:
            return False
        self._unreplicated = _with(self._unreplicated, first_offset, marker_offset)
        return True

    def remove_unreplicated(self, offset: int) -> None:
        """Those that have ended with a marker below `offset` are stable."""
        for first in [first for first, marker in self._unreplicated.items() if marker < offset]:
            del self._unreplicated[first]


def _with(transactions: dict[int, int], first_offset: int, value: int) -> dict[int, int]:
    """With one more, still ascending: nearly always it is the last."""
    last = next(reversed(transactions), -1)
    transactions[first_offset] = value
    return transactions if first_offset >= last else dict(sorted(transactions.items()))
