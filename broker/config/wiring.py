"""The listeners through which a broker hears of dynamic configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.config.change_listener import ConfigListener, EntityHandler
from broker.groups.consumer.config import is_enabled as serves_consumer_groups
from controller.zk import paths

if TYPE_CHECKING:
    from broker.config.change_listener import DynamicBrokerConfig
    from broker.config.reconfiguration import Reconfiguration
    from broker.quotas.quotas import Quotas
    from broker.requests.context import BrokerContext
    from broker.security.scram_credentials import ScramCredentials


def listen_for_configs(
    context: BrokerContext,
    reconfiguration: Reconfiguration,
    dynamic_config: DynamicBrokerConfig,
    scram_credentials: ScramCredentials,
    quotas: Quotas,
) -> ConfigListener:
    """From now on the broker knows the configs of topics, brokers, users, clients and addresses."""
    users = partial(_tell_each, (scram_credentials.on_user_change, quotas.on_user))
    listener = ConfigListener(
        context.zk,
        {
            "topics": reconfiguration.on_topic_change,
            "brokers": dynamic_config.on_change,
            paths.USER_CONFIG: users,
            paths.CLIENT_CONFIG: quotas.on_client,
            paths.IP_CONFIG: quotas.on_ip,
        },
        context.clock,
        workers=context.workers,
    )
    listener.start()
    return listener


def listen_for_group_configs(context: BrokerContext, reconfiguration: Reconfiguration) -> ConfigListener | None:
    """From now on the broker knows the configs of groups; None where it serves none that have any."""
    if not serves_consumer_groups(context.config):
        return None
    context.zk.create_recursive(paths.GROUP_CONFIG_CHANGES, fail_if_exists=False)
    handlers = {paths.GROUP_CONFIG: reconfiguration.on_group_change}
    listener = ConfigListener(context.zk, handlers, context.clock, paths.GROUP_CONFIG_CHANGES, context.workers)
    listener.start()
    return listener


def _tell_each(handlers: Sequence[EntityHandler], name: str, overrides: Mapping[str, str]) -> None:
    for handler in handlers:
        handler(name, overrides)
