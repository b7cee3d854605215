"""What clients have pushed, as series for Prometheus.

A name is that of the metric with `_` for what Prometheus does not allow: `org.apache.kafka.producer.record.send.total`
becomes `org_apache_kafka_producer_record_send_total`. Names from elsewhere begin with `client_`, so that no client can
write into the broker's own series. Counters end in `_total`, histograms are Prometheus's; what is pushed as a
difference is added up. Labels are who pushed it, then the attributes that came with it.

A series goes when it was not pushed for as long as its client is remembered. What is too much is dropped and counted:
series above the broker's bound or above a tenth of it from one client, and names and labels that are too long.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker.http.series import quoted
from broker.telemetry.otlp import Attributes, Point
from timer.clock import Clock

MAX_NAME = 256
MAX_LABELS = 2048
"""Characters of all labels of a series together."""
SHARE_OF_ONE_CLIENT = 10

_OWN = "org.apache.kafka."
_NOT_IN_NAMES = re.compile("[^a-zA-Z0-9_]")


class Source(NamedTuple):
    """Who pushed; the fields are the labels."""

    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    principal: str


class _Series:
    __slots__ = ("expires_ms", "kind", "value")

    def __init__(self) -> None:
        self.kind = "gauge"
        self.value = 0.0
        self.expires_ms = 0


_Key = tuple[str, str, str]
"""Family, what the name has behind it, and labels."""


class ClientSeries:
    """Written by handlers, read by the HTTP thread."""

    def __init__(self, clock: Clock, bound: int) -> None:
        self._clock = clock
        self._bound = bound
        self._lock = threading.Lock()
        self._clients: dict[str, dict[_Key, _Series]] = {}
        self._count = 0
        self.dropped = 0
        """Points that are not shown because of a bound."""

    def __len__(self) -> int:
        return self._count

    def take(self, source: Source, points: Iterable[Point], lifetime_ms: int) -> None:
        """What one push brought; every series in it lives so much longer."""
        who = _labels(source._asdict().items(), ())
        with self._lock:
            expires_ms = self._clock.monotonic_ms() + lifetime_ms
            series = self._clients.setdefault(source.client_instance_id, {})
            for point in points:
                found = self._series(series, _key(point, who))
                if found is None:
                    self.dropped += 1
                    continue
                found.kind = "histogram" if point.part else "counter" if point.is_counter else "gauge"
                found.value = found.value + point.value if point.is_delta else point.value
                found.expires_ms = expires_ms
            if not series:
                del self._clients[source.client_instance_id]

    def expire(self) -> None:
        """Forget what was not pushed for long."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            for client, series in list(self._clients.items()):
                late = [key for key, each in series.items() if each.expires_ms <= now_ms]
                for key in late:
                    del series[key]
                self._count -= len(late)
                if not series:
                    del self._clients[client]

    def lines(self) -> Iterator[str]:
        """The lines of the page, family by family."""
        families: dict[str, list[tuple[str, str, float]]] = {}
        kinds: dict[str, set[str]] = {}
        with self._lock:
            for series in self._clients.values():
                for (family, part, labels), each in series.items():
                    families.setdefault(family, []).append((part, labels, each.value))
                    kinds.setdefault(family, set()).add(each.kind)
        for family in sorted(families):
            kind = kinds[family].pop() if len(kinds[family]) == 1 else "untyped"
            yield f"# HELP {family} pushed by clients\n# TYPE {family} {kind}\n"
            for part, labels, value in families[family]:
                yield f"{family}{part}{{{labels}}} {value!r}\n"

    def _series(self, of_client: dict[_Key, _Series], key: _Key | None) -> _Series | None:
        if key is None:
            return None
        found = of_client.get(key)
        if found is None:
            if self._count >= self._bound or len(of_client) >= max(1, self._bound // SHARE_OF_ONE_CLIENT):
                return None
            found = of_client[key] = _Series()
            self._count += 1
        return found


def _key(point: Point, who: str) -> _Key | None:
    """None for what is too long."""
    name = point.name if point.name.startswith(_OWN) else f"client.{point.name}"
    family = _NOT_IN_NAMES.sub("_", name)
    if point.is_counter and not point.part and not family.endswith("_total"):
        family += "_total"
    labels = _labels(point.attributes, Source._fields)
    labels = f"{who},{labels}" if labels else who
    if len(family) > MAX_NAME or len(labels) > MAX_LABELS:
        return None
    return family, f"_{point.part}" if point.part else "", labels


def _labels(attributes: Attributes | Iterable[tuple[str, str]], taken: Iterable[str]) -> str:
    """Of two attributes with one name the first counts, and none that is `taken`."""
    found: dict[str, str] = {}
    for key, value in attributes:
        name = _NOT_IN_NAMES.sub("_", key).lstrip("_")
        if name and name not in taken:
            found.setdefault(f"_{name}" if name[0].isdigit() else name, value)
    return ",".join(f'{name}="{quoted(value)}"' for name, value in found.items())
