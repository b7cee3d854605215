"""The loggers of this process as BROKER_LOGGER resources: Kafka's well-known names beside our own.

A name of Kafka's stands for the loggers of the code that does the same here: setting its level sets theirs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from network.protocol.errors import ApiError, ErrorCode

ROOT = "root"
OFF = "OFF"
"""A level that log4j files may name; it cannot be set by a request."""

KAFKA_LOGGERS: dict[str, tuple[str, ...]] = {
    # Those that Kafka's own log4j.properties names.
    "kafka": ("broker", "controller", "log", "network", "timer"),
    "org.apache.kafka": ("broker", "controller", "log", "network", "timer"),
    "org.apache.zookeeper": ("kazoo",),
    "kafka.request.logger": ("kafka.request.logger",),
    "kafka.network.RequestChannel$": ("network.server.request_channel",),
    "kafka.controller": ("controller",),
    "kafka.log.LogCleaner": ("log.cleaner",),
    "state.change.logger": (
        "broker.replication.become_leader_or_follower",
        "controller.partition_state_machine",
        "controller.replica_state_machine",
    ),
    "kafka.authorizer.logger": ("kafka.authorizer.logger", "broker.requests.authorization"),
    # Classes that operators turn up when something is wrong.
    "kafka.controller.KafkaController": ("controller",),
    "kafka.controller.ZkPartitionStateMachine": ("controller.partition_state_machine",),
    "kafka.controller.ZkReplicaStateMachine": ("controller.replica_state_machine",),
    "kafka.controller.TopicDeletionManager": ("controller.topic_deletion",),
    "kafka.coordinator.group.GroupCoordinator": ("broker.groups",),
    "kafka.coordinator.group.GroupMetadataManager": (
        "broker.groups.metadata_manager",
        "broker.groups.offsets",
        "broker.groups.records",
    ),
    "kafka.coordinator.transaction.TransactionCoordinator": ("broker.transactions",),
    "kafka.coordinator.transaction.TransactionStateManager": ("broker.transactions.state_manager",),
    "kafka.coordinator.transaction.TransactionMarkerChannelManager": ("broker.transactions.markers",),
    "kafka.log.LogManager": ("log",),
    "kafka.log.UnifiedLog": ("log",),
    "kafka.log.LogCleanerManager$": ("log.cleaner.manager",),
    "kafka.network.DataPlaneAcceptor": ("network.server.acceptor",),
    "kafka.network.Processor": ("network.server.processor",),
    "kafka.network.SocketServer": ("network",),
    "kafka.server.KafkaApis": ("broker.api", "broker.requests.dispatcher"),
    "kafka.server.KafkaRequestHandler": ("network.server.handler_pool",),
    "kafka.server.KafkaServer": ("broker.server", "broker.server_process"),
    "kafka.server.ReplicaFetcherManager": ("broker.replication.follower.fetcher_manager",),
    "kafka.server.ReplicaManager": ("broker.replication",),
    "kafka.server.ZkAdminManager": ("broker.topics.topic_admin",),
    "kafka.server.ZkConfigManager": ("broker.config.change_listener",),
    "kafka.server.metadata.ZkMetadataCache": ("broker.cluster.metadata_cache",),
    "kafka.zk.KafkaZkClient": ("controller.zk",),
    "kafka.zookeeper.ZooKeeperClient": ("controller.zk", "kazoo"),
    "org.apache.zookeeper.ClientCnxn": ("kazoo",),
    "org.apache.zookeeper.ZooKeeper": ("kazoo",),
}

LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": logging.DEBUG - 5,
    "WARN": logging.WARNING,
}


def levels() -> dict[str, str]:
    """Effective levels by name: the root first, then Kafka's names, then ours."""
    names = [ROOT, *KAFKA_LOGGERS, *sorted(str(name) for name in logging.root.manager.loggerDict)]
    return {name: _level_of(_loggers(name)[0]) for name in names}


def check(name: str) -> None:
    """Raises INVALID_CONFIG for a logger that is not there."""
    if name != ROOT and name not in KAFKA_LOGGERS and name not in logging.root.manager.loggerDict:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")


def check_level(name: str, level: str) -> None:
    """Raises INVALID_CONFIG for a level that is none."""
    if level not in LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. Valid log levels are "
            f"{', '.join(LEVELS)}",
        )


def set_level(name: str, level: str | None) -> None:
    """At once, until the process ends. None: as the logger above has it; `OFF`: nothing at all."""
    for logger in _loggers(name):
        if level is None:
            logger.setLevel(logging.NOTSET)
        else:
            logger.setLevel(logging.CRITICAL + 1 if level == OFF else LEVELS[level])


def _loggers(name: str) -> Sequence[logging.Logger]:
    if name == ROOT:
        return (logging.getLogger(),)
    return [logging.getLogger(each) for each in KAFKA_LOGGERS.get(name, (name,))]


def _level_of(logger: logging.Logger) -> str:
    effective = logger.getEffectiveLevel()
    below = [name for name, level in LEVELS.items() if level <= effective]
    return max(below, key=lambda name: LEVELS[name], default="TRACE")
