"""Gauges that every object of one kind has, as each partition and each log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Reading(Generic[T]):
    """Reads all gauges of one object. Two that read the same of the same object are equal."""

    __slots__ = ("_owner", "_read")

    def __init__(self, read: Callable[[T], Sequence[float]], owner: T) -> None:
        self._read = read
        self._owner = owner

    def __call__(self) -> Sequence[float]:
        return self._read(self._owner)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reading) and self._read is other._read and self._owner is other._owner

    def __hash__(self) -> int:
        return hash((id(self._read), id(self._owner)))


class GaugeFamily(Generic[T]):
    """Keeps of each object nothing but the values of its tags: a broker has ten gauges for each of thousands of
    partitions, and whole names and functions for all of them would be half of what a partition takes."""

    def __init__(
        self,
        tags: Sequence[str],
        names: Sequence[str],
        read: Callable[[T], Sequence[float]],
        on_change: Callable[[], None],
    ) -> None:
        """`read` gives the values of all `names`; `on_change` is called after every change."""
        self.names = tuple(names)
        self._tags = tuple(tags)
        self._read = read
        self._on_change = on_change
        self._lock = threading.Lock()
        self._owners: dict[tuple[str, ...], T] = {}

    def add(self, owner: T, *values: str) -> None:
        """Register the gauges of `owner`, in place of those with the same tags."""
        assert len(values) == len(self._tags)
        with self._lock:
            self._owners[values] = owner
        self._on_change()

    def remove(self, *values: str) -> None:
        """Forget the gauges with these tags; unknown ones are ignored."""
        with self._lock:
            known = self._owners.pop(values, None) is not None
        if known:
            self._on_change()

    def __len__(self) -> int:
        return len(self._owners) * len(self.names)

    def items(self) -> Iterator[tuple[tuple[tuple[str, str], ...], Reading[T]]]:
        """The tags of those that are there now, and what reads all their gauges."""
        with self._lock:
            owners = list(self._owners.items())
        for values, owner in owners:
            yield tuple(zip(self._tags, values, strict=True)), Reading(self._read, owner)

    def get(self, *values: str) -> Reading[T] | None:
        """What reads all gauges of the object with these tags."""
        owner = self._owners.get(values)
        return None if owner is None else Reading(self._read, owner)
