"""What lower floors record metrics with; the registry behind it is handed in.

Group, type, name and tags are those of Kafka's metrics (``kafka.server:type=BrokerTopicMetrics,name=...``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
OwnerT = TypeVar("OwnerT", contravariant=True)


class Meter(Protocol):
    """A count and its rate."""

    def mark(self, n: int = 1) -> None:
        """Count ``n`` events."""


class Histogram(Protocol):
    """A distribution of values."""

    def update(self, value: float, n: int = 1) -> None:
        """Record a value that occurred ``n`` times."""


class Family(Protocol[OwnerT]):
    """The gauges of many objects of one kind, whose tags have the same names."""

    def add(self, owner: OwnerT, *values: str) -> None:
        """Register the gauges of `owner`, in place of those with the same tags; `values` are those of the tags."""

    def remove(self, *values: str) -> None:
        """Forget the gauges with these tags; unknown ones are ignored."""


class Metrics(Protocol):
    """A registry of metrics; registering the same name again returns, or for gauges replaces, what is there."""

    def gauge(self, group: str, type_: str, name: str, fn: Callable[[], float], **tags: str) -> None:
        """Register a value that is read when asked for."""

    def gauges_together(
        self, group: str, type_: str, names: Sequence[str], fn: Callable[[], Sequence[float]], **tags: str
    ) -> None:
        """Register values that are read together, in the order of their names."""

    def family(
        self, group: str, type_: str, tags: Sequence[str], names: Sequence[str], read: Callable[[T], Sequence[float]]
    ) -> Family[T]:
        """Such values of objects that will be told; `tags` are names as they are shown. Made on first use."""

    def meter(self, group: str, type_: str, name: str, **tags: str) -> Meter:
        """A meter, made on first use."""

    def histogram(self, group: str, type_: str, name: str, **tags: str) -> Histogram:
        """A histogram, made on first use."""

    def remove(self, group: str, type_: str, name: str, **tags: str) -> None:
        """Forget a metric; unknown ones are ignored."""


class _Nothing:
    """Takes everything and keeps nothing."""

    def mark(self, n: int = 1) -> None:
        pass

    def update(self, value: float, n: int = 1) -> None:
        pass

    def add(self, owner: Any, *values: str) -> None:
        pass

    def remove(self, *values: str) -> None:
        pass


_NOTHING = _Nothing()


class NullMetrics:
    """A registry for those who want no metrics."""

    def gauge(self, group: str, type_: str, name: str, fn: Callable[[], float], **tags: str) -> None:
        pass

    def gauges_together(
        self, group: str, type_: str, names: Sequence[str], fn: Callable[[], Sequence[float]], **tags: str
    ) -> None:
        pass

    def family(
        self, group: str, type_: str, tags: Sequence[str], names: Sequence[str], read: Callable[[T], Sequence[float]]
    ) -> Family[T]:
        return _NOTHING

    def meter(self, group: str, type_: str, name: str, **tags: str) -> Meter:
        return _NOTHING

    def histogram(self, group: str, type_: str, name: str, **tags: str) -> Histogram:
        return _NOTHING

    def remove(self, group: str, type_: str, name: str, **tags: str) -> None:
        pass


NULL_METRICS = NullMetrics()
