"""What changes in a running broker when dynamic configs change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from broker.config.dynamic_checks import LISTENER_KEYS, OF_BOTH, OF_LOGINS
from broker.config.honoured import plain_name
from broker.config.keys import ConfigError, shown
from broker.config.topic_config import topic_defaults
from broker.config.topic_keys import TOPIC_KEYS
from broker.server_settings import broker_info, cleaner_config, ip_overrides, listener_config, listener_limits
from controller.zk import paths
from log.config import LogConfig
from network.tls.settings import KEYS as TLS_KEYS

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from broker.replication.replica_manager import ReplicaManager
    from broker.requests.context import BrokerContext
    from broker.security.listeners import ListenerSecurity
    from controller.config import ControllerConfig
    from controller.controller import Controller
    from log.management.manager import LogManager
    from network.server.socket_server import SocketServer
    from timer.scheduler import BackgroundScheduler

logger = logging.getLogger(__name__)

_UNCLEAN = "unclean.leader.election.enable"


class Parts(Protocol):
    """The parts of a broker that values are handed to; `BrokerServer` has them all."""

    config: KafkaConfig
    context: BrokerContext
    controller: Controller
    controller_settings: ControllerConfig
    listener_security: ListenerSecurity
    log_manager: LogManager
    replica_manager: ReplicaManager
    scheduler: BackgroundScheduler
    socket_server: SocketServer


class Reconfiguration:
    """Hands new values to the parts of a broker that have taken a copy of the old ones.

    Who receives the value of a key stands in `receivers`, for every key that can be changed.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.receivers: dict[str, Callable[[], None]] = {
            **dict.fromkeys((key.broker_key for key in TOPIC_KEYS.values() if key.broker_key), self._log_defaults),
            _UNCLEAN: self._unclean_leader_election,
            **dict.fromkeys(TLS_KEYS, self._tls),
            **dict.fromkeys(LISTENER_KEYS, self._listeners),
            **dict.fromkeys((*OF_LOGINS, *OF_BOTH), self._logins),
            "background.threads": self._background_threads,
            "num.io.threads": self._io_threads,
            "num.network.threads": self._network_threads,
            "num.recovery.threads.per.data.dir": self._recovery_threads,
            "num.replica.fetchers": self._replica_fetchers,
            **dict.fromkeys(
                (
                    "log.cleaner.backoff.ms",
                    "log.cleaner.dedupe.buffer.size",
                    "log.cleaner.io.buffer.load.factor",
                    "log.cleaner.io.buffer.size",
                    "log.cleaner.io.max.bytes.per.second",
                    "log.cleaner.threads",
                ),
                self._cleaner,
            ),
            **dict.fromkeys(("max.connections", "max.connection.creation.rate"), self._connection_limits),
            **dict.fromkeys(("max.connections.per.ip", "max.connections.per.ip.overrides"), self._ip_limits),
            **dict.fromkeys(
                ("producer.id.expiration.ms", "transaction.partition.verification.enable"), self._producers
            ),
            **dict.fromkeys(
                (
                    "follower.replication.throttled.rate",
                    "leader.replication.throttled.rate",
                    "replica.alter.log.dirs.io.max.bytes.per.second",
                ),
                self._throttles,
            ),
        }

    def on_topic_change(self, topic: str, overrides: Mapping[str, str]) -> None:
        """The full set of a topic's overrides."""
        parts = self._parts
        parts.log_manager.update_topic_config(topic, overrides)
        parts.replica_manager.on_topic_config(topic, overrides)
        if shown(TOPIC_KEYS[_UNCLEAN], overrides.get(_UNCLEAN, "false")) == "true":
            parts.controller.enable_topic_unclean_leader_election(topic)

    def on_group_change(self, name: str, overrides: Mapping[str, str]) -> None:
        """The full set of a group's overrides; the name as in the path."""
        groups = self._parts.context.group_coordinator.consumer
        groups.overrides.on_change(paths.desanitize(name), overrides)

    def on_broker_change(self, changed: Mapping[str, tuple[object, object]]) -> None:
        """Values of this broker's configuration that are now different, as name to (old, new). What one part makes of
        its values is no reason to keep others from theirs."""
        names = {plain_name(name) for name in changed}
        for receive in dict.fromkeys(self.receivers[name] for name in self.receivers if name in names):
            try:
                receive()
            except (ConfigError, OSError, ValueError) as error:
                logger.error("dynamic configs could not be applied: %s", error)

    # ------------------------------------------------------------------ receivers

    def _log_defaults(self) -> None:
        self._parts.log_manager.update_default_config(LogConfig.from_mapping(topic_defaults(self._parts.config)))

    def _listeners(self) -> None:
        """Serve the listeners that are named now, and tell the cluster where they are. One that cannot be served is an
        error in the log, and nobody is told of it."""
        parts = self._parts
        config, socket_server, security = parts.config, parts.socket_server, parts.listener_security
        config.resolve_listeners()
        wanted = {endpoint.listener_name: endpoint for endpoint in config.listeners}
        for name in set(socket_server.listener_names) - wanted.keys():
            socket_server.remove_listener(name)
            security.forget(name)
            logger.info("listener %s is closed", name)
        for name in wanted.keys() - set(socket_server.listener_names):
            try:
                socket_server.add_listener(listener_config(config, wanted[name], security))
            except (ConfigError, OSError) as error:
                security.forget(name)
                logger.error("listener %s cannot be served: %s", wanted[name], error)
                continue
            logger.info("listener %s is served on port %d", wanted[name], socket_server.bound_port(name))
            if wanted[name].warning is not None:
                logger.warning("%s", wanted[name].warning)
        ports = {name: socket_server.bound_port(name) for name in socket_server.listener_names}
        parts.controller.update_broker_info(broker_info(config, ports))

    def _logins(self) -> None:
        self._parts.context.peer_security.reload()

    def _tls(self) -> None:
        self._parts.listener_security.reload()

    def _unclean_leader_election(self) -> None:
        parts = self._parts
        self._log_defaults()
        enabled = parts.config.get_bool(_UNCLEAN)
        parts.controller_settings.unclean_leader_election_enable = enabled
        if enabled:
            parts.controller.enable_default_unclean_leader_election()

    def _background_threads(self) -> None:
        self._parts.scheduler.resize(self._parts.config.get_int("background.threads"))

    def _io_threads(self) -> None:
        self._parts.socket_server.handler_pool.resize(self._parts.config.get_int("num.io.threads"))

    def _network_threads(self) -> None:
        config, socket_server = self._parts.config, self._parts.socket_server
        for listener, limits in listener_limits(config).items():
            threads = limits.network_threads or config.get_int("num.network.threads")
            socket_server.resize_network_threads(threads, listener)

    def _recovery_threads(self) -> None:
        self._parts.log_manager.set_recovery_threads(self._parts.config.get_int("num.recovery.threads.per.data.dir"))

    def _replica_fetchers(self) -> None:
        self._parts.replica_manager.fetchers.resize(self._parts.config.get_int("num.replica.fetchers"))

    def _cleaner(self) -> None:
        cleaner = self._parts.log_manager.cleaner
        if cleaner is not None:
            cleaner.reconfigure(cleaner_config(self._parts.config))

    def _connection_limits(self) -> None:
        config, quotas = self._parts.config, self._parts.socket_server.quotas
        quotas.update_max_connections(config.get_int("max.connections"))
        quotas.update_creation_rate(config.get_int("max.connection.creation.rate"))
        for listener, limits in listener_limits(config).items():
            quotas.update_listener(listener, limits.connections, limits.creation_rate)

    def _ip_limits(self) -> None:
        config, quotas = self._parts.config, self._parts.socket_server.quotas
        quotas.update_max_connections_per_ip(config.get_int("max.connections.per.ip"), ip_overrides(config))

    def _producers(self) -> None:
        config = self._parts.config
        self._parts.log_manager.update_producer_config(
            expiration_ms=config.get_int("producer.id.expiration.ms"),
            verification=config.get_bool("transaction.partition.verification.enable"),
        )

    def _throttles(self) -> None:
        self._parts.replica_manager.on_broker_config()
