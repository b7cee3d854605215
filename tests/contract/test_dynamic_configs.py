"""Broker configs that can only be set while the broker runs."""

from __future__ import annotations

import pytest

from broker.dev.polling import wait_until
from network.protocol.errors import ErrorCode
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.cluster import CLOCK, Cluster

SET, DELETE = 0, 1
BROKER, GROUP, DYNAMIC_BROKER, DYNAMIC_DEFAULT, LONG = 4, 32, 2, 3, 5
WAIT_MS = 60_000
RATES = ["leader.replication.throttled.rate", "follower.replication.throttled.rate"]

Entry = tuple[str | None, int, bool, bool, int, list[tuple[str, str | None, int]]]


def alter(cluster: Cluster, name: str, value: str | None, broker: str = "0") -> None:
    change = AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[change])
    with cluster.client() as client:
        (result,) = client.call_broker(0, IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert result.error_code == 0, result.error_message


def described(cluster: Cluster, keys: list[str] | None) -> dict[str, Entry]:
    """Value, source, sensitive, read only, type and synonyms by name."""
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="0", configuration_keys=keys)
    with cluster.client() as client:
        (result,) = client.call_broker(0, DescribeConfigsRequest(resources=[resource], include_synonyms=True)).results
    return {
        each.name: (
            each.value,
            each.config_source,
            each.is_sensitive,
            each.read_only,
            each.config_type,
            [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms],
        )
        for each in result.configs
    }


@pytest.mark.parametrize("keys", [None, RATES], ids=["all", "asked"])
def test_throttle_rates_show_while_they_are_set(cluster: Cluster, keys: list[str] | None) -> None:
    """Read only, says Kafka, though they can be changed: it looks for the key in the file's table."""
    leader, follower = RATES
    assert not {leader, follower} & described(cluster, keys).keys()
    alter(cluster, leader, "1000")
    alter(cluster, follower, "2000", "")
    try:
        assert wait_until(lambda: {leader, follower} <= described(cluster, keys).keys(), CLOCK, WAIT_MS)
        found = described(cluster, keys)
        assert found[leader] == ("1000", DYNAMIC_BROKER, False, True, LONG, [(leader, "1000", DYNAMIC_BROKER)])
        assert found[follower] == ("2000", DYNAMIC_DEFAULT, False, True, LONG, [(follower, "2000", DYNAMIC_DEFAULT)])
    finally:
        alter(cluster, leader, None)
        alter(cluster, follower, None, "")
    assert wait_until(lambda: not {leader, follower} & described(cluster, keys).keys(), CLOCK, WAIT_MS)


def test_groups_have_no_configs_without_the_consumer_protocol(cluster: Cluster) -> None:
    name = "consumer.session.timeout.ms"
    change = AlterableConfig(name=name, config_operation=SET, value="50000")
    resource = AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=[change])
    asked = DescribeConfigsResource(resource_type=GROUP, resource_name="g", configuration_keys=[name])
    with cluster.client() as client:
        (refused,) = client.call_broker(0, IncrementalAlterConfigsRequest(resources=[resource])).responses
        (unknown,) = client.call_broker(0, DescribeConfigsRequest(resources=[asked])).results
    assert (refused.error_code, unknown.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize(
    ("name", "value"),
    [("authorizer.class.name", "x.Authorizer"), ("ssl.keystore.location", "/nowhere")],
)
@pytest.mark.parametrize("broker", ["0", ""])
def test_security_is_not_promised_dynamically(cluster: Cluster, broker: str, name: str, value: str) -> None:
    change = AlterableConfig(name=name, config_operation=SET, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=[change])
    with cluster.client() as client:
        (result,) = client.call_broker(0, IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert value not in (result.error_message or "")
