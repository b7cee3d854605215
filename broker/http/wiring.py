"""The HTTP server of one broker, and the checks of its health."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker.cluster.metadata_cache import MetadataCache
from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError
from broker.http.exposition import Exposition
from broker.http.health import Check, Health
from broker.http.messages import Handler
from broker.metrics import MetricsRegistry
from timer.worker import OnError, Workers

if TYPE_CHECKING:
    from broker.http.server import HttpServer
    from controller.zk.kazoo_session import KazooSession
    from log.management.manager import LogManager


FAILURES_IN_A_ROW = 3
"""So often may a background thread fail, in well under a second, before the broker is not ready."""


def start_http(
    config: KafkaConfig,
    metrics: MetricsRegistry,
    health: Health,
    room: Handler | None = None,
    more: Callable[[], Iterator[str]] | None = None,
) -> HttpServer | None:
    """Serve metrics with `more` lines, health and the console where the configuration says so; None where it
    doesn't. Raises `ConfigError`."""
    port = config["odradek.http.port"]
    if port is None:
        return None
    # Only a broker that serves HTTP loads its parser.
    from broker.http.server import HttpServer

    host = config.get_str("odradek.http.host")
    exposition = Exposition(
        metrics,
        partitions=config.get_bool("odradek.metrics.partitions"),
        more=more,
    )
    server = HttpServer(
        host,
        port,
        {"/metrics": exposition.handle, "/health/live": health.live, "/health/ready": health.ready},
        room,
    )
    try:
        server.start()
    except OSError as error:
        raise ConfigError(f"odradek.http.port: cannot listen on {host}:{port}: {error}") from None
    return server


def zookeeper_check(session: KazooSession) -> Check:
    """Whether the session is connected."""
    return lambda: None if session.is_connected else "not connected"


def metadata_check(cache: MetadataCache) -> Check:
    """Whether the controller has told this broker of the live brokers, itself among them."""

    def check() -> str | None:
        if not cache.is_told:
            return "nothing heard from the controller yet"
        return None if cache.broker_id in cache.snapshot.brokers else "this broker is not among the live ones"

    return check


def workers_check(workers: Workers) -> Check:
    """Whether the loops of the broker get on; one that may end, as Kafka's log cleaner may, does not count as dead."""

    def check() -> str | None:
        dead = [f"{worker.name} is dead" for worker in workers.dead() if worker.on_error is OnError.GO_ON]
        failing = [
            f"{worker.name} has failed {worker.failures_in_a_row} times in a row: {worker.last_error}"
            for worker in workers.failing()
            if worker.failures_in_a_row >= FAILURES_IN_A_ROW and not worker.is_dead
        ]
        return "; ".join(dead + failing) or None

    return check


def log_dirs_check(manager: LogManager) -> Check:
    """Whether all log directories are online."""

    def check() -> str | None:
        offline = manager.offline_log_dirs
        return f"offline: {', '.join(offline)}" if offline else None

    return check
