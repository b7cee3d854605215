"""Configs that are at work when the test goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

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
_SET, _DELETE = 0, 1
_TIMEOUT_MS = 60_000


def change_configs(
    call: Callable[[IncrementalAlterConfigsRequest, int], Any],
    kind: int,
    resource: str,
    values: Mapping[str, str | None],
) -> None:
    """Set configs, or take those back that are None; `call` sends a request of a version. Brokers hear of it a moment
    after the answer."""
    configs = [
        AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
        for name, value in values.items()
    ]
    altered = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=configs)
    (answer,) = call(IncrementalAlterConfigsRequest(resources=[altered]), 1).responses
    assert answer.error_code == 0, answer.error_message


def alter_config(broker: Broker, kind: int, resource: str, **values: str) -> None:
    """`change_configs` by a connection of its own, `_` in names for `.`."""
    named = {key.replace("_", "."): value for key, value in values.items()}
    change_configs(partial(wire.call, broker), kind, resource, named)


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
