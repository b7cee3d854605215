"""Settings of the consumer protocol, in the units of their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from broker.config.keys import ConfigError
from broker.groups.consumer.assignors import ASSIGNORS, configured
from broker.groups.consumer.assignors.spec import Assignor

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig


class MigrationPolicy(Enum):
    """Which way a group with members may change its protocol."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig:
    """Defaults are Kafka's. The first of `assignors` is for groups whose members name none."""

    is_enabled: bool = False
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    assignors: Mapping[str, Assignor] = field(default_factory=lambda: ASSIGNORS)
    migration_policy: MigrationPolicy = MigrationPolicy.DISABLED

    @classmethod
    def from_kafka_config(cls, config: KafkaConfig) -> ConsumerGroupConfig:
        """Raises ConfigError where values do not fit together, or name an assignor that is not there."""
        try:
            assignors = configured(list(config["group.consumer.assignors"]))
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return cls(
            is_enabled=is_enabled(config),
            session_timeout_ms=_within(config, "session.timeout.ms"),
            heartbeat_interval_ms=_within(config, "heartbeat.interval.ms"),
            max_size=config.get_int("group.consumer.max.size"),
            assignors=assignors,
            migration_policy=MigrationPolicy(config.get_str("group.consumer.migration.policy").lower()),
        )


def is_enabled(config: KafkaConfig) -> bool:
    """Whether the broker serves the consumer protocol."""
    return "consumer" in config["group.coordinator.rebalance.protocols"]


def max_version(config: KafkaConfig) -> int:
    """The highest version of the APIs of the protocol: without it only what Kafka offers in ZooKeeper mode."""
    return 1 if is_enabled(config) else 0


def _within(config: KafkaConfig, name: str) -> int:
    value = config.get_int(f"group.consumer.{name}")
    low, high = config.get_int(f"group.consumer.min.{name}"), config.get_int(f"group.consumer.max.{name}")
    if not low <= value <= high:
        raise ConfigError(f"group.consumer.{name}: {value} is not between {low} and {high}")
    return value
