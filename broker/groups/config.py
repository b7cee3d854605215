"""Settings of the group coordinator, in the units of their keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a member that has never had a join answer may wait for it."""


@dataclass(frozen=True, slots=True)
class ValueVersions:
    """The versions of record values that the inter-broker protocol allows to be written."""

    offset: int = 3
    group: int = 3

    @classmethod
    def for_protocol(cls, at_least: Callable[[str], bool]) -> ValueVersions:
        """`at_least` tells whether the inter-broker protocol is at least a named version."""
        offset = 3 if at_least("2.1-IV1") else 2 if at_least("2.1-IV0") else 1
        group = 3 if at_least("2.3-IV0") else 2 if at_least("2.1-IV0") else 1 if at_least("0.10.1-IV0") else 0
        return cls(offset, group)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max_chars: int = 4_096
    load_buffer_bytes: int = 5_242_880
    offsets_retention_ms: int = 10_080 * 60_000
    retention_check_interval_ms: int = 600_000
    commit_timeout_ms: int = 5_000
    commit_required_acks: int = -1
    compression_codec: int = 0
    versions: ValueVersions = field(default_factory=ValueVersions)

    def allows_session_timeout(self, timeout_ms: int) -> bool:
        """Whether a member may have this session timeout."""
        return self.min_session_timeout_ms <= timeout_ms <= self.max_session_timeout_ms

    @classmethod
    def from_kafka_config(cls, config: KafkaConfig) -> GroupConfig:
        return cls(
            min_session_timeout_ms=config.get_int("group.min.session.timeout.ms"),
            max_session_timeout_ms=config.get_int("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
            max_size=config.get_int("group.max.size"),
            offset_metadata_max_chars=config.get_int("offset.metadata.max.bytes"),
            load_buffer_bytes=config.get_int("offsets.load.buffer.size"),
            offsets_retention_ms=config.get_int("offsets.retention.minutes") * 60_000,
            retention_check_interval_ms=config.get_int("offsets.retention.check.interval.ms"),
            commit_timeout_ms=config.get_int("offsets.commit.timeout.ms"),
            commit_required_acks=config.get_int("offsets.commit.required.acks"),
            compression_codec=config.get_int("offsets.topic.compression.codec"),
            versions=ValueVersions.for_protocol(config.version.at_least),
        )
