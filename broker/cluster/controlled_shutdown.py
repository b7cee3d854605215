"""What a broker does first when it stops: ask the controller to move its leaderships to other brokers.

How the controller moves them: `controller/broker_changes.py`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from broker.cluster.metadata_cache import MetadataCache
from broker.config.kafka_config import KafkaConfig
from network.client.connection import Connection, ConnectionFailed, SocketWrapper
from network.protocol.errors import ErrorCode, ProtocolError
from network.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from timer.clock import Clock

logger = logging.getLogger(__name__)


def controlled_shutdown(
    config: KafkaConfig,
    metadata_cache: MetadataCache,
    broker_epoch: Callable[[], int],
    clock: Clock,
    wrap: SocketWrapper | None = None,
) -> bool:
    """Try up to `controlled.shutdown.max.retries` times; returns whether this broker leads nothing any more. `wrap`
    secures the connection to the controller."""
    attempts = config.get_int("controlled.shutdown.max.retries")
    backoff_ms = config.get_int("controlled.shutdown.retry.backoff.ms")
    never = threading.Condition()
    for attempt in range(1, attempts + 1):
        if _attempt(config, metadata_cache, broker_epoch(), clock, wrap):
            logger.info("controlled shutdown succeeded")
            return True
        if attempt < attempts:
            logger.info("controlled shutdown attempt %d did not succeed, trying again", attempt)
            with never:
                clock.wait(never, backoff_ms)
    logger.warning("going on with an unclean shutdown: controlled shutdown did not succeed after %d attempts", attempts)
    return False


def _attempt(
    config: KafkaConfig, metadata_cache: MetadataCache, broker_epoch: int, clock: Clock, wrap: SocketWrapper | None
) -> bool:
    controller = metadata_cache.controller_id
    listener = config.control_plane_listener_name or config.inter_broker_listener_name
    node = None if controller is None else metadata_cache.broker_node(controller, listener)
    if node is None:
        logger.info("no controller is known")
        return False
    request = ControlledShutdownRequest(broker_id=config.broker_id, broker_epoch=broker_epoch)
    version = 3 if config.version.at_least("2.4-IV1") else 2 if config.version.at_least("2.2-IV0") else 1
    timeout_ms = config.get_int("controller.socket.timeout.ms")
    try:
        with Connection(
            node.host, node.port, str(config.broker_id), clock, timeout_ms, timeout_ms, wrap=wrap
        ) as connection:
            response = connection.call(request, version)
    except (ConnectionFailed, ProtocolError) as error:
        logger.info("controller %d cannot be asked: %s", node.id, error)
        return False
    if response.error_code != ErrorCode.NONE:
        logger.info("controller %d answered %s", node.id, ErrorCode.of(response.error_code).name)
        return False
    remaining = [f"{entry.topic_name}-{entry.partition_index}" for entry in response.remaining_partitions]
    if remaining:
        logger.info("%d partitions are still led here: %s", len(remaining), ", ".join(remaining[:10]))
    return not remaining
