"""The client telemetry of one broker, if it has any."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.config.change_listener import ConfigListener
from broker.config.kafka_config import KafkaConfig
from broker.telemetry.telemetry import ClientTelemetry
from controller.zk import paths

if TYPE_CHECKING:
    from broker.requests.context import BrokerContext
    from timer.scheduler import Scheduler

logger = logging.getLogger(__name__)

_EXPIRY_CHECK_MS = 10_000


def make_telemetry(context: BrokerContext) -> ClientTelemetry | None:
    """None where it is not enabled."""
    config = context.config
    if not is_enabled(config):
        return None
    if config["odradek.http.port"] is None:
        logger.warning("metrics that clients push are shown nowhere: odradek.http.port is not set")
    return ClientTelemetry(
        context.clock,
        context.metrics,
        max_bytes=config.get_int("telemetry.max.bytes"),
        max_series=config.get_int("odradek.client.telemetry.max.series"),
    )


def is_enabled(config: KafkaConfig) -> bool:
    return config.get_bool("odradek.client.telemetry.enable")


def listen_for_subscriptions(
    context: BrokerContext, telemetry: ClientTelemetry, scheduler: Scheduler
) -> ConfigListener:
    """From now on the broker knows every subscription, and forgets who is gone."""
    context.zk.create_recursive(paths.CLIENT_METRICS_CONFIG_CHANGES, fail_if_exists=False)
    listener = ConfigListener(
        context.zk,
        {paths.CLIENT_METRICS_CONFIG: telemetry.on_change},
        context.clock,
        paths.CLIENT_METRICS_CONFIG_CHANGES,
        context.workers,
    )
    listener.start()
    scheduler.schedule("client-telemetry-expiry", telemetry.expire, _EXPIRY_CHECK_MS, _EXPIRY_CHECK_MS)
    return listener
