"""One sample of a broker's workings: queues, times, wheels, events, replication.

What is large is walked in slices with a pause after each, as it shares the interpreter with the requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.metrics import Meter
from timer.timer import SystemTimer

if TYPE_CHECKING:
    from broker.http.console.internals.controller_trail import ControllerTrail
    from broker.http.console.internals.requests import RequestWatch
    from broker.metrics import MetricsRegistry
    from broker.replication.partition import Partition
    from broker.replication.replica_manager import ReplicaManager
    from network.server.socket_server import SocketServer
    from timer.clock import Clock
    from timer.purgatory import DelayedOperation, Purgatory

MOST_IN_BUCKET = 100
"""Entries of a bucket that are counted: it is looked at under its timer's lock."""
FURTHEST_BEHIND = 12
_SLICE = 250


@dataclass(frozen=True, slots=True)
class Sources:
    """The parts of a broker that are looked at."""

    clock: Clock
    metrics: MetricsRegistry
    socket_server: SocketServer
    replica_manager: ReplicaManager
    purgatories: Sequence[Purgatory[DelayedOperation]]
    trail: ControllerTrail
    requests: RequestWatch


class Sampler:
    """Makes samples. The rates in them are those since the sample before."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._last_ms = sources.clock.monotonic_ms()

    def look(self, on: bool) -> None:
        """Somebody begins to look, or nobody does any more."""
        self._sources.requests.look(on)
        self._sources.trail.look(on)
        self._last_ms = self._sources.clock.monotonic_ms()

    async def sample(self) -> dict[str, Any]:
        sources = self._sources
        now = sources.clock.monotonic_ms()
        interval, self._last_ms = now - self._last_ms, now
        return {
            "at": sources.clock.wall_ms(),
            "interval": interval,
            "reactor": self._reactor(),
            "requests": sources.requests.take(),
            "purgatories": [self._purgatory(each) for each in sources.purgatories],
            "controller": sources.trail.view(),
            "replication": await self._replication(),
        }

    def _reactor(self) -> dict[str, Any]:
        server = self._sources.socket_server
        idle = self._sources.metrics.get("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent")
        return {
            "queue": len(server.request_channel),
            "capacity": server.request_channel.capacity,
            "handlers": server.handler_pool.size,
            "handlers_idle": min(1.0, idle.rates[0] / 1e9) if isinstance(idle, Meter) else None,
            "processors": [
                {
                    "id": processor.id,
                    "listener": processor.listener.name,
                    "connections": processor.connection_count,
                    "responses": processor.response_queue_size,
                    "idle": processor.idle_ratio(),
                }
                for processor in server.processors()
            ],
        }

    def _purgatory(self, purgatory: Purgatory[DelayedOperation]) -> dict[str, Any]:
        timer = purgatory.timer
        levels = timer.census(MOST_IN_BUCKET) if isinstance(timer, SystemTimer) else []
        return {
            "name": purgatory.name,
            "watched": purgatory.watched,
            "delayed": purgatory.num_delayed,
            "levels": [
                {"tick": tick, "at": current // tick % len(buckets), "buckets": buckets}
                for tick, current, buckets in levels
            ],
        }

    async def _replication(self) -> dict[str, Any]:
        manager = self._sources.replica_manager
        followers: dict[int, list[int]] = {}
        behind: list[tuple[int, dict[str, Any]]] = []
        led = 0
        for number, partition in enumerate(manager.partitions.leaders()):
            led += 1
            for replica, lag, in_sync in _copies(partition):
                sums = followers.setdefault(replica, [0, 0, 0])
                sums[0] += 1
                sums[1] += lag
                sums[2] += not in_sync
                if lag > 0 or not in_sync:
                    name = {"partition": str(partition.topic_partition), "replica": replica, "in_sync": in_sync}
                    behind.append((lag, name))
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        behind.sort(key=lambda each: each[0], reverse=True)
        return {
            "broker": manager.broker_id,
            "led": led,
            "followers": [
                {"broker": replica, "partitions": count, "lag": lag, "out": out}
                for replica, (count, lag, out) in sorted(followers.items())
            ],
            "fetchers": [
                {"leader": leader, "number": number, "partitions": count, "lag": lag}
                for leader, number, count, lag in sorted(manager.fetchers.census())
            ],
            "behind": [{"lag": lag, **name} for lag, name in behind[:FURTHEST_BEHIND]],
        }


def _copies(partition: Partition) -> Iterator[tuple[int, int, bool]]:
    """(broker, records that it lacks, whether it is in sync) of each follower: a look without the lock, good enough
    to be drawn. A follower that has not fetched yet lacks all that there is."""
    log = partition.log
    if log is None:
        return
    end, isr = log.log_end_offset, partition.isr_state.isr
    for replica, remote in list(partition.remote_replicas.items()):
        yield replica, max(0, end - max(0, remote.log_end_offset)), replica in isr
