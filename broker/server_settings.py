"""From the broker's configuration to the settings of its parts."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import NamedTuple

from broker.config.cross_checks import parse_ip_overrides
from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError
from broker.config.listeners import Endpoint
from broker.config.topic_config import topic_defaults
from broker.security.listeners import ListenerSecurity
from controller.config import ControllerConfig
from controller.zk.payloads import BrokerInfo, EndPoint
from log.cleaner.cleaner_threads import CleanerConfig
from log.config import LogConfig
from log.management.manager import LogManagerSettings
from log.producer_state import ProducerStateConfig
from network.server.connection_quotas import UNLIMITED
from network.server.server_config import ListenerConfig, SocketServerConfig


def log_config(config: KafkaConfig) -> LogConfig:
    """The settings of a topic without overrides."""
    return LogConfig.from_mapping(topic_defaults(config))


def log_manager_settings(config: KafkaConfig) -> LogManagerSettings:
    return LogManagerSettings(
        recovery_threads_per_dir=config.get_int("num.recovery.threads.per.data.dir"),
        retention_check_ms=config.get_int("log.retention.check.interval.ms"),
        flush_check_ms=config.get_int("log.flush.scheduler.interval.ms"),
        recovery_point_checkpoint_ms=config.get_int("log.flush.offset.checkpoint.interval.ms"),
        log_start_offset_checkpoint_ms=config.get_int("log.flush.start.offset.checkpoint.interval.ms"),
        initial_task_delay_ms=config.get_int("log.initial.task.delay.ms"),
        file_delete_delay_ms=config.get_int("log.segment.delete.delay.ms"),
        producer_expiration_check_ms=config.get_int("producer.id.expiration.check.interval.ms"),
        cleaner_enabled=config.get_bool("log.cleaner.enable"),
    )


def cleaner_config(config: KafkaConfig) -> CleanerConfig:
    return CleanerConfig(
        threads=max(1, config.get_int("log.cleaner.threads")),
        dedupe_buffer_size=config.get_int("log.cleaner.dedupe.buffer.size"),
        io_buffer_size=config.get_int("log.cleaner.io.buffer.size"),
        io_buffer_load_factor=config.get_float("log.cleaner.io.buffer.load.factor"),
        max_io_bytes_per_second=config.get_float("log.cleaner.io.max.bytes.per.second"),
        backoff_ms=config.get_int("log.cleaner.backoff.ms"),
        own_process=config.get_bool("odradek.log.cleaner.process"),
    )


def producer_state_config(config: KafkaConfig) -> ProducerStateConfig:
    return ProducerStateConfig(
        producer_id_expiration_ms=config.get_int("producer.id.expiration.ms"),
        transaction_verification_enable=config.get_bool("transaction.partition.verification.enable"),
        transaction_max_timeout_ms=config.get_int("transaction.max.timeout.ms"),
    )


class ListenerLimits(NamedTuple):
    """What a listener has of its own; `network_threads` of None means the broker's number."""

    network_threads: int | None
    connections: int
    creation_rate: int


def listener_limits(config: KafkaConfig) -> dict[str, ListenerLimits]:
    """By listener: the values of `listener.name.<listener>.<key>`, dynamic ones too."""
    limits = {}
    for endpoint in config.listeners:
        prefix = f"listener.name.{endpoint.listener_name.lower()}."
        limits[endpoint.listener_name] = ListenerLimits(
            config.own_of_listener(prefix + "num.network.threads"),
            _or_unlimited(config.own_of_listener(prefix + "max.connections")),
            _or_unlimited(config.own_of_listener(prefix + "max.connection.creation.rate")),
        )
    return limits


def _or_unlimited(limit: int | None) -> int:
    return UNLIMITED if limit is None else limit


def ip_overrides(config: KafkaConfig) -> dict[str, int]:
    """Connections by address: the hosts of `max.connections.per.ip.overrides` as the machine knows them. Raises
    `ConfigError` for a host without an address."""
    overrides: dict[str, int] = {}
    for host, count in parse_ip_overrides(config.get_str("max.connections.per.ip.overrides")).items():
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConfigError(f"max.connections.per.ip.overrides: {host} has no address: {error}") from None
        overrides.update({str(address[0]): count for *_, address in found})
    return overrides


def listener_config(config: KafkaConfig, endpoint: Endpoint, security: ListenerSecurity) -> ListenerConfig:
    """Raises `ConfigError` for a listener whose security cannot be had."""
    limits = listener_limits(config)[endpoint.listener_name]
    return ListenerConfig(
        endpoint.listener_name,
        endpoint.host,
        endpoint.port,
        endpoint.security_protocol,
        num_network_threads=limits.network_threads,
        max_connections=limits.connections,
        max_connection_creation_rate=limits.creation_rate,
        transport=security.transport(endpoint),
        authenticator=security.authenticator(endpoint),
    )


def socket_server_config(config: KafkaConfig, security: ListenerSecurity) -> SocketServerConfig:
    return SocketServerConfig(
        [listener_config(config, endpoint, security) for endpoint in config.listeners],
        broker_id=config.broker_id,
        control_plane_listener_name=config.control_plane_listener_name,
        inter_broker_listener_name=config.inter_broker_listener_name,
        num_network_threads=config.get_int("num.network.threads"),
        num_io_threads=config.get_int("num.io.threads"),
        queued_max_requests=config.get_int("queued.max.requests"),
        queued_max_request_bytes=config.get_int("queued.max.request.bytes"),
        socket_request_max_bytes=config.get_int("socket.request.max.bytes"),
        socket_send_buffer_bytes=config.get_int("socket.send.buffer.bytes"),
        socket_receive_buffer_bytes=config.get_int("socket.receive.buffer.bytes"),
        socket_listen_backlog_size=config.get_int("socket.listen.backlog.size"),
        connections_max_idle_ms=config.get_int("connections.max.idle.ms"),
        sasl_login_timeout_ms=config.get_int("odradek.sasl.login.timeout.ms"),
        max_connections=config.get_int("max.connections"),
        max_connections_per_ip=config.get_int("max.connections.per.ip"),
        max_connections_per_ip_overrides=ip_overrides(config),
        max_connection_creation_rate=config.get_int("max.connection.creation.rate"),
        quota_window_num=config.get_int("quota.window.num"),
        quota_window_size_seconds=config.get_int("quota.window.size.seconds"),
    )


def controller_config(config: KafkaConfig) -> ControllerConfig:
    return ControllerConfig(
        broker_id=config.broker_id,
        version=config.version,
        inter_broker_listener=config.inter_broker_listener_name,
        control_plane_listener=config.control_plane_listener_name,
        delete_topic_enable=config.get_bool("delete.topic.enable"),
        unclean_leader_election_enable=config.get_bool("unclean.leader.election.enable"),
        auto_leader_rebalance_enable=config.get_bool("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval_seconds=config.get_int("leader.imbalance.check.interval.seconds"),
        leader_imbalance_per_broker_percentage=config.get_int("leader.imbalance.per.broker.percentage"),
        controller_socket_timeout_ms=config.get_int("controller.socket.timeout.ms"),
        request_timeout_ms=config.get_int("request.timeout.ms"),
    )


def broker_info(config: KafkaConfig, bound_ports: Mapping[str, int]) -> BrokerInfo:
    """What this broker registers: of the listeners that have a port, those that are advertised."""
    endpoints = tuple(
        EndPoint(endpoint.listener_name, endpoint.host, endpoint.port, endpoint.security_protocol)
        for endpoint in config.advertised_endpoints(bound_ports)
    )
    return BrokerInfo(config.broker_id, endpoints, config.rack)
