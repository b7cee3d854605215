"""Connections to brokers over the network layer, as `channel_manager` wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.channel_manager import BrokerConnection, Connect
from controller.config import ControllerConfig
from controller.zk.payloads import BrokerInfo
from network.client.connection import Connection, CorrelationIds, SocketWrapper

if TYPE_CHECKING:
    from timer.clock import Clock


def connector(config: ControllerConfig, clock: Clock, wrap: SocketWrapper | None = None) -> Connect:
    """How to reach a broker: its control-plane or inter-broker listener; `wrap` adds TLS or SASL.

    The client id is the controller's id. Correlation ids go on counting when a broker is connected to again.
    """
    ids: dict[int, CorrelationIds] = {}

    def connect(broker: BrokerInfo) -> BrokerConnection:
        endpoint = broker.endpoint(config.control_listener)
        if endpoint is None:
            raise OSError(f"broker {broker.id} has no listener {config.control_listener}")
        return Connection(
            endpoint.host,
            endpoint.port,
            str(config.broker_id),
            clock,
            config.controller_socket_timeout_ms,
            config.request_timeout_ms,
            correlation_ids=ids.setdefault(broker.id, CorrelationIds()),
            wrap=wrap,
        )

    return connect
