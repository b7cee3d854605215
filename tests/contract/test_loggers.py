"""Levels of loggers under the names that Kafka's operators know."""

from __future__ import annotations

import pytest

from network.protocol.errors import ErrorCode
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support import wire
from tests.support.cluster import Cluster

SET, DELETE, APPEND = 0, 1, 2
LOGGER, LOGGER_SOURCE, UNKNOWN_TYPE = 8, 6, 0
WELL_KNOWN = [
    "kafka.server.KafkaApis",
    "kafka.controller.KafkaController",
    "state.change.logger",
    "kafka.request.logger",
    "kafka.log.LogCleaner",
    "kafka.coordinator.group.GroupCoordinator",
    "kafka.server.ReplicaManager",
    "org.apache.zookeeper.ZooKeeper",
]


def alter(cluster: Cluster, name: str, kind: int, value: str | None, broker: str = "0") -> tuple[int, str | None]:
    change = AlterableConfig(name=name, config_operation=kind, value=value)
    resource = AlterConfigsResource(resource_type=LOGGER, resource_name=broker, configs=[change])
    (answer,) = wire.call(cluster.brokers[0], IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return answer.error_code, answer.error_message


def level(cluster: Cluster, name: str) -> str | None:
    resource = DescribeConfigsResource(resource_type=LOGGER, resource_name="0", configuration_keys=[name])
    (answer,) = wire.call(cluster.brokers[0], DescribeConfigsRequest(resources=[resource]), 4).results
    (entry,) = answer.configs
    assert (entry.config_source, entry.config_type, entry.read_only) == (LOGGER_SOURCE, UNKNOWN_TYPE, False)
    value: str | None = entry.value
    return value


@pytest.mark.parametrize("name", WELL_KNOWN)
def test_levels_are_set_and_taken_back(cluster: Cluster, name: str) -> None:
    before = level(cluster, name)
    assert alter(cluster, name, SET, "FATAL") == (0, None)
    assert level(cluster, name) == "FATAL"
    assert alter(cluster, name, DELETE, None) == (0, None)
    assert alter(cluster, name, SET, before) == (0, None)


@pytest.mark.parametrize(
    ("name", "kind", "value", "answer"),
    [
        (
            "root",
            SET,
            "debug",
            (
                ErrorCode.INVALID_CONFIG,
                "Cannot set the log level of root to debug as it is not a supported log level. Valid log levels are "
                "DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
            ),
        ),
        (
            "root",
            DELETE,
            None,
            (ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"),
        ),
        (
            "root",
            APPEND,
            "INFO",
            (ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        ),
        ("no.such.Logger", SET, "INFO", (ErrorCode.INVALID_CONFIG, "Logger no.such.Logger does not exist!")),
    ],
)
def test_refused(cluster: Cluster, name: str, kind: int, value: str | None, answer: tuple[int, str]) -> None:
    assert alter(cluster, name, kind, value) == answer
