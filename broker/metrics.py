"""The metrics registry: gauges, meters and histograms under Kafka's names.

A metric is named as Kafka names its MBean: `group:type=T,name=N,tag=value,...`. Recording is cheap (a lock and an
addition); rates are worked out when `tick` runs every five seconds, percentiles when somebody reads them.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from broker.gauge_family import GaugeFamily
from timer.chance import SeededChance

TICK_MS = 5_000
_RESERVOIR = 1028  # samples kept by a histogram
# What an array of values may hold, and what holds more: whole numbers to 255, to 65,535, and any number.
_WIDER = {"B": "H", "H": "d"}


class MetricName(NamedTuple):
    group: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        tags = "".join(f",{key}={value}" for key, value in self.tags)
        return f"{self.group}:type={self.type},name={self.name}{tags}"


class Meter:
    """Counts events and keeps their one, five and fifteen minute rates per second (exponentially weighted)."""

    __slots__ = ("_lock", "_rates", "_uncounted", "count")

    _WEIGHTS = tuple(1 - math.exp(-(TICK_MS / 1000) / (60 * minutes)) for minutes in (1, 5, 15))

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rates: list[float] | None = None
        self._uncounted = 0
        self.count = 0

    def mark(self, n: int = 1) -> None:
        with self._lock:
            self.count += n
            self._uncounted += n

    def tick(self) -> None:
        with self._lock:
            rate = self._uncounted / (TICK_MS / 1000)
            self._uncounted = 0
            if self._rates is None:
                self._rates = [rate] * 3
            else:
                for i, weight in enumerate(self._WEIGHTS):
                    self._rates[i] += weight * (rate - self._rates[i])

    @property
    def rates(self) -> tuple[float, float, float]:
        rates = self._rates
        return (0.0, 0.0, 0.0) if rates is None else (rates[0], rates[1], rates[2])


class Histogram:
    """Count, sum, extremes and percentiles of a uniform sample of all values."""

    __slots__ = ("_lock", "_random", "_sample", "count", "maximum", "minimum", "total")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._random = SeededChance(0)
        # A broker has hundreds, and those of rare requests fill for hours. Most values are a few whole milliseconds: a
        # kilobyte for all of them, where a list takes nine and may have each number in a place of its own.
        self._sample: array[Any] = array("B")
        self.count = 0
        self.total = 0.0
        self.minimum = math.inf
        self.maximum = -math.inf

    def update(self, value: float, n: int = 1) -> None:
        """Record a value that occurred `n` times."""
        with self._lock:
            self.count += n
            self.total += value * n
            if value < self.minimum:
                self.minimum = value
            if value > self.maximum:
                self.maximum = value
            try:
                self._keep(value, n)
            except (OverflowError, TypeError):
                # The first one that does not fit; nothing of it has been kept.
                self._make_fit(value)
                self._keep(value, n)

    def _keep(self, value: float, n: int) -> None:
        sample = self._sample
        room = _RESERVOIR - len(sample)
        if room:
            sample.extend([value] * min(room, n))
            n -= min(room, n)
        if n:
            # As many places as n draws of a uniform sample would take, without drawing n times.
            draw = self._random.random
            for _ in range(min(_RESERVOIR, int(n * _RESERVOIR / self.count + draw()))):
                sample[int(draw() * _RESERVOIR)] = value

    def _make_fit(self, value: float) -> None:
        while (wider := _WIDER.get(self._sample.typecode)) is not None:
            self._sample = array(wider, self._sample)
            try:
                array(wider, (value,))
            except (OverflowError, TypeError):
                continue
            return

    def percentiles(self, fractions: Sequence[float]) -> list[float]:
        """Each between 0 and 1; 0 for all while nothing has been recorded."""
        with self._lock:
            sample = sorted(self._sample)
        return [_at(sample, fraction) for fraction in fractions]

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


def _at(sample: list[float], fraction: float) -> float:
    if not sample:
        return 0.0
    position = fraction * (len(sample) - 1)
    low = math.floor(position)
    high = min(low + 1, len(sample) - 1)
    return sample[low] + (sample[high] - sample[low]) * (position - low)


T = TypeVar("T")


class Part:
    """A gauge that is one of `count` read together: `together` gives all of them."""

    __slots__ = ("count", "place", "together")

    def __init__(self, together: Callable[[], Sequence[float]], place: int, count: int) -> None:
        self.together = together
        self.place = place
        self.count = count

    def __call__(self) -> float:
        return self.together()[self.place]

    def is_like(self, other: object) -> bool:
        """Whether it reads the same: those of a family are made anew whenever they are asked for."""
        return isinstance(other, Part) and self.place == other.place and self.together == other.together


Metric = Callable[[], float] | Meter | Histogram


class MetricsRegistry:
    """All metrics of one broker. Asking twice for a meter or histogram gives the same one; a gauge is replaced."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._metrics: dict[MetricName, Metric] = {}
        self._families: dict[tuple[str, str, tuple[str, ...]], GaugeFamily[Any]] = {}
        self._changes = 0
        self._preparations: list[Callable[[], None]] = []

    @property
    def changes(self) -> int:
        """Grows whenever `items` would return something else."""
        return self._changes

    def gauge(self, group: str, type_: str, name: str, fn: Callable[[], float], **tags: str) -> None:
        with self._lock:
            self._metrics[_name(group, type_, name, tags)] = fn
            self._changes += 1

    def gauges_together(
        self, group: str, type_: str, names: Sequence[str], fn: Callable[[], Sequence[float]], **tags: str
    ) -> None:
        with self._lock:
            for place, name in enumerate(names):
                self._metrics[_name(group, type_, name, tags)] = Part(fn, place, len(names))
            self._changes += 1

    def family(
        self, group: str, type_: str, tags: Sequence[str], names: Sequence[str], read: Callable[[T], Sequence[float]]
    ) -> GaugeFamily[T]:
        """Gauges of many objects; asking twice for a group, type and names of tags gives the same."""
        key = group, type_, tuple(tags)
        with self._lock:
            found = self._families.get(key)
            if found is None:
                found = self._families[key] = GaugeFamily(tags, names, read, self._changed)
            return found

    def _changed(self) -> None:
        with self._lock:
            self._changes += 1

    def meter(self, group: str, type_: str, name: str, **tags: str) -> Meter:
        key = _name(group, type_, name, tags)
        with self._lock:
            metric = self._metrics.get(key)
            if not isinstance(metric, Meter):
                metric = self._metrics[key] = Meter()
                self._changes += 1
            return metric

    def histogram(self, group: str, type_: str, name: str, **tags: str) -> Histogram:
        key = _name(group, type_, name, tags)
        with self._lock:
            metric = self._metrics.get(key)
            if not isinstance(metric, Histogram):
                metric = self._metrics[key] = Histogram()
                self._changes += 1
            return metric

    def remove(self, group: str, type_: str, name: str, **tags: str) -> None:
        with self._lock:
            if self._metrics.pop(_name(group, type_, name, tags), None) is not None:
                self._changes += 1

    def tick(self) -> None:
        """Bring all rates up to date; the scheduler calls it every `TICK_MS`."""
        with self._lock:
            metrics = list(self._metrics.values())
        for metric in metrics:
            if isinstance(metric, Meter):
                metric.tick()

    def __len__(self) -> int:
        return len(self._metrics) + sum(len(family) for family in list(self._families.values()))

    def before_read(self, prepare: Callable[[], None]) -> None:
        """Have `prepare` called before all metrics are read, to give meters what has been counted elsewhere."""
        self._preparations.append(prepare)

    def prepare(self) -> None:
        """Call what `before_read` was given; for who reads all metrics."""
        for prepare in self._preparations:
            prepare()

    def items(self) -> Iterator[tuple[MetricName, Metric]]:
        """Every metric that is there when this is called or when its family's turn comes."""
        with self._lock:
            metrics, families = list(self._metrics.items()), list(self._families.items())
        yield from metrics
        for (group, type_, _), family in families:
            for tags, together in family.items():
                for place, name in enumerate(family.names):
                    yield MetricName(group, type_, name, tags), Part(together, place, len(family.names))

    def get(self, group: str, type_: str, name: str, **tags: str) -> Metric | None:
        key = _name(group, type_, name, tags)
        with self._lock:
            found = self._metrics.get(key)
            if found is not None:
                return found
            family = self._families.get((group, type_, tuple(tag for tag, _ in key.tags)))
        together = None if family is None else family.get(*(value for _, value in key.tags))
        if family is None or together is None or name not in family.names:
            return None
        return Part(together, family.names.index(name), len(family.names))

    def value(self, group: str, type_: str, name: str, **tags: str) -> float:
        """The value of a gauge, or the count of a meter or histogram. Raises `KeyError` if there is none."""
        metric = self.get(group, type_, name, **tags)
        if metric is None:
            raise KeyError(str(_name(group, type_, name, tags)))
        return float(metric.count) if isinstance(metric, Meter | Histogram) else metric()


def _name(group: str, type_: str, name: str, tags: dict[str, str]) -> MetricName:
    return MetricName(group, type_, name, tuple((key.replace("_", "-"), value) for key, value in tags.items()))
