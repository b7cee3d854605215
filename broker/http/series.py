"""How a metric of the registry appears in Prometheus: names and labels as the JMX exporter's example rules for Kafka
(`kafka-2_0_0.yml`) make them of an MBean, so that dashboards made for Apache Kafka work unchanged.

| metric                        | series                                                                    |
|-------------------------------|---------------------------------------------------------------------------|
| gauge                         | `group_type_name`                                                         |
| meter or gauge `NamePerSec`   | `group_type_name_total`, a counter                                        |
| meter or gauge `NamePercent`  | `group_type_namepercent`, and `group_type_name_percent` as Strimzi has it |
| gauge `...-total`             | `group_type_name_total`, a counter                                        |
| other meters                  | `group_type_name_count`, and `_rate`, of the last minute                  |
| histogram, timer              | a summary: quantiles, `_count`, `_sum`                                    |
| histogram of a `type=*-metrics` | `group_type_name_avg`, `_max`                                           |

All in lower case, what Prometheus does not allow as `_`; the MBean's other properties are labels. What is a whole
MBean of attributes in Kafka (`type=socket-server-metrics`) has the attribute's name at the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from broker.metrics import Histogram, Meter, Metric, MetricName

QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
_PER_SECOND = "PerSec"
_PERCENT = "Percent"
_OF_ATTRIBUTES = "-metrics"
_NOT_IN_NAMES = re.compile("[^a-zA-Z0-9_]")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

Read = Callable[[], float]


class Series(NamedTuple):
    """One line of the page: `line` is all that stands before the value, `read` gives the value."""

    family: str
    kind: str
    mbean: str
    line: str
    read: Read


def series_of(key: MetricName, metric: Metric) -> Iterator[Series]:
    """All series of one metric."""
    mbean = f"{key.group}:type={key.type},name={key.name}"
    labels = ",".join(f'{_identifier(tag)}="{quoted(value)}"' for tag, value in key.tags)

    def one(family: str, kind: str, read: Read, suffix: str = "", more: str = "") -> Series:
        inside = ",".join(filter(None, (labels, more)))
        return Series(family, kind, mbean, f"{family}{suffix}{{{inside}}} " if inside else f"{family}{suffix} ", read)

    name = _family(key, key.name)
    if isinstance(metric, Histogram) and key.type.endswith(_OF_ATTRIBUTES):
        yield one(f"{name}_avg", "gauge", lambda: metric.mean)
        yield one(f"{name}_max", "gauge", lambda: metric.maximum if metric.count else 0)
        return
    if isinstance(metric, Histogram):
        quantiles = _Quantiles(metric)
        for place, quantile in enumerate(QUANTILES):
            yield one(name, "summary", quantiles.reader(place), more=f'quantile="{quantile}"')
        yield one(name, "summary", lambda: metric.count, "_count")
        yield one(name, "summary", lambda: metric.total, "_sum")
        return
    value: Read = (lambda: metric.count) if isinstance(metric, Meter) else metric
    if _PER_SECOND in key.name:
        yield one(f"{_family(key, key.name.partition(_PER_SECOND)[0])}_total", "counter", value)
    elif key.name.endswith(_PERCENT):
        share: Read = (lambda: metric.rates[0] / 1e9) if isinstance(metric, Meter) else metric
        yield one(name, "gauge", share)
        yield one(f"{_family(key, key.name.removesuffix(_PERCENT))}_percent", "gauge", share)
        if isinstance(metric, Meter):
            yield one(f"{name}_count", "untyped", value)  # nanoseconds
    elif isinstance(metric, Meter):
        yield one(f"{name}_count", "untyped", value)  # grows, but has not the ending that a counter's name needs
        yield one(f"{name}_rate", "gauge", lambda: metric.rates[0])
    else:
        yield one(name, "counter" if name.endswith("_total") else "gauge", metric)


def quoted(value: str) -> str:
    """The value of a label as it stands between quotes."""
    return value.translate(_ESCAPES)


def _family(key: MetricName, name: str) -> str:
    return _identifier("_".join(filter(None, (key.group, key.type, name)))).lower()


def _identifier(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)


class _Quantiles:
    """Reads a histogram's quantiles in the order of `QUANTILES`; the first sorts the sample for all of them."""

    __slots__ = ("_histogram", "_values")

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._values: list[float] = [0.0] * len(QUANTILES)

    def reader(self, place: int) -> Read:
        return self._first if place == 0 else lambda: self._values[place]

    def _first(self) -> float:
        self._values = self._histogram.percentiles(QUANTILES)
        return self._values[0]
