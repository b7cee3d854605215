"""Settings of the consumer protocol."""

from __future__ import annotations

import pytest

from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError
from broker.groups.consumer.config import ConsumerGroupConfig, MigrationPolicy, max_version


def config(**settings: str) -> KafkaConfig:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return KafkaConfig({"zookeeper.connect": "localhost:2181", "broker.id": "0", **named})


def test_off_by_default() -> None:
    found = ConsumerGroupConfig.from_kafka_config(config())
    assert not found.is_enabled
    assert (found.session_timeout_ms, found.heartbeat_interval_ms) == (45_000, 5_000)
    assert list(found.assignors) == ["uniform", "range"]
    assert found.migration_policy is MigrationPolicy.DISABLED
    assert max_version(config()) == 0


def test_on() -> None:
    settings = config(
        group_coordinator_rebalance_protocols="classic,consumer",
        group_consumer_assignors="org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        group_consumer_migration_policy="Bidirectional",
    )
    found = ConsumerGroupConfig.from_kafka_config(settings)
    assert found.is_enabled
    assert list(found.assignors) == ["range"]
    assert found.migration_policy is MigrationPolicy.BIDIRECTIONAL
    assert max_version(settings) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"group_consumer_session_timeout_ms": "1000"},
        {"group_consumer_session_timeout_ms": "70000"},
        {"group_consumer_heartbeat_interval_ms": "1"},
        {"group_consumer_assignors": "com.example.Own"},
    ],
    ids=str,
)
def test_values_that_do_not_fit(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings)).replace("_", r"\.")):
        ConsumerGroupConfig.from_kafka_config(config(**settings))
