"""Subscriptions to client metrics, as the `client-metrics` configs say, and what of them one client gets (KIP-714)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from broker.config.client_metrics_keys import DEFAULT_INTERVAL_MS, parse_subscription
from broker.telemetry.match import Match, matches, parse_match
from log.records.checksum import crc32c

ALL = "*"
"""Stands for every metric that a client has."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """`metrics` are prefixes of names; an empty `match` is for every client."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Match

    @classmethod
    def of(cls, overrides: Mapping[str, str]) -> Subscription:
        """From the overrides of a resource. Raises `ConfigError`, and `MatchError` for what `match` may not be."""
        metrics, interval_ms, match = parse_subscription(overrides)
        return cls(tuple(metrics), interval_ms, parse_match(match))


@dataclass(frozen=True, slots=True)
class ClientSubscription:
    """What one client shall push: all that its subscriptions ask for, at the shortest of their intervals."""

    metrics: tuple[str, ...]
    interval_ms: int
    id: int

    @classmethod
    def of(cls, client: bytes, metrics: set[str], interval_ms: int) -> ClientSubscription:
        """The id is another one whenever metrics or interval are, and for every client."""
        wanted = (ALL,) if ALL in metrics else tuple(sorted(metrics))
        crc = crc32c(f"[{', '.join(wanted)}]{interval_ms}".encode())
        return cls(wanted, interval_ms, _int32(crc ^ _java_hash(client)))


class Subscriptions:
    """All of the cluster. `version` grows with every change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, Subscription] = {}
        self.version = 0

    def on_change(self, name: str, overrides: Mapping[str, str]) -> None:
        """The full set of a resource's overrides; none at all removes it. Raises `ConfigError`."""
        with self._lock:
            if overrides:
                self._by_name[name] = Subscription.of(overrides)
            elif self._by_name.pop(name, None) is None:
                return
            self.version += 1

    def names(self) -> list[str]:
        with self._lock:
            return sorted(self._by_name)

    def of_client(self, client: bytes, attributes: Mapping[str, str]) -> tuple[int, ClientSubscription]:
        """What a client with these attributes gets, and at which version. Without a match nothing, every five minutes:
        then it asks again."""
        with self._lock:
            version, all_of_them = self.version, list(self._by_name.values())
        metrics: set[str] = set()
        interval_ms = DEFAULT_INTERVAL_MS
        for each in all_of_them:
            if matches(each.match, attributes):
                metrics.update(each.metrics)
                interval_ms = min(interval_ms, each.interval_ms)
        return version, ClientSubscription.of(client, metrics, interval_ms)


def _java_hash(uuid: bytes) -> int:
    """Of Kafka's `Uuid`."""
    both = int.from_bytes(uuid[:8]) ^ int.from_bytes(uuid[8:])
    return (both >> 32) ^ (both & 0xFFFFFFFF)


def _int32(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
