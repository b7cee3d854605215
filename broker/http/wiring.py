"""The HTTP server of one broker, and the checks of its health."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError
from broker.http.exposition import Exposition
from broker.http.health import Check, Health
from broker.http.server import HttpServer
from broker.metadata_cache import MetadataCache
from broker.metrics import MetricsRegistry

if TYPE_CHECKING:
    from controller.zk.kazoo_session import KazooSession
    from log.manager import LogManager


def start_http(config: KafkaConfig, metrics: MetricsRegistry, health: Health) -> HttpServer | None:
    """Serve metrics and health where the configuration says so; None where it doesn't. Raises `ConfigError`."""
    port = config["odradek.http.port"]
    if port is None:
        return None
    host = config.get_str("odradek.http.host")
    exposition = Exposition(metrics, partitions=config.get_bool("odradek.metrics.partitions"))
    server = HttpServer(
        host,
        port,
        {"/metrics": exposition.handle, "/health/live": health.live, "/health/ready": health.ready},
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
        brokers = cache.snapshot.brokers
        if not brokers:
            return "nothing heard from the controller yet"
        return None if cache.broker_id in brokers else "this broker is not among the live ones"

    return check


def log_dirs_check(manager: LogManager) -> Check:
    """Whether all log directories are online."""

    def check() -> str | None:
        offline = manager.offline_log_dirs
        return f"offline: {', '.join(offline)}" if offline else None

    return check
