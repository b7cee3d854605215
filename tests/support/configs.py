"""Configs that are at work when the test goes on."""

from __future__ import annotations

from broker.dev.polling import wait_until
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support import wire
from tests.support.cluster import CLOCK, Broker

TOPIC, BROKER, GROUP = 2, 4, 32
_TIMEOUT_MS = 60_000


def alter_config(broker: Broker, kind: int, resource: str, **values: str) -> None:
    """Set configs, `_` in names for `.`; brokers hear of it a moment after the answer."""
    configs = [AlterableConfig(name=key.replace("_", "."), config_operation=0, value=v) for key, v in values.items()]
    altered = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=configs)
    (answer,) = wire.call(broker, IncrementalAlterConfigsRequest(resources=[altered]), 1).responses
    assert answer.error_code == 0, answer.error_message


def set_broker_config(broker: Broker, **values: str) -> None:
    """Set configs of one broker, and wait until it says itself that they apply.

    Changes reach a broker in their order, so what was changed before by anybody applies then too.
    """
    resource = str(broker.broker_id)
    alter_config(broker, BROKER, resource, **values)
    wanted = {key.replace("_", "."): value for key, value in values.items()}
    described = DescribeConfigsResource(resource_type=BROKER, resource_name=resource, configuration_keys=list(wanted))

    def applied() -> bool:
        (answer,) = wire.call(broker, DescribeConfigsRequest(resources=[described]), 4).results
        return {entry.name: entry.value for entry in answer.configs} == wanted

    assert wait_until(applied, CLOCK, _TIMEOUT_MS), f"broker {resource} does not take {wanted}"
