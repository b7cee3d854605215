"""What changes in a running broker when dynamic configs change."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.config.topic_config import topic_defaults
from controller.zk import paths
from log.config import LogConfig

if TYPE_CHECKING:
    from broker.server import BrokerServer

logger = logging.getLogger(__name__)


class Reconfiguration:
    def __init__(self, server: BrokerServer) -> None:
        self._server = server

    def on_topic_change(self, topic: str, overrides: Mapping[str, str]) -> None:
        """The full set of a topic's overrides."""
        server = self._server
        server.log_manager.update_topic_config(topic, overrides)
        server.replica_manager.on_topic_config(topic, overrides)
        if overrides.get("unclean.leader.election.enable", "").lower() == "true":
            server.controller.enable_topic_unclean_leader_election(topic)

    def on_group_change(self, name: str, overrides: Mapping[str, str]) -> None:
        """The full set of a group's overrides; the name as in the path."""
        groups = self._server.context.group_coordinator.consumer
        groups.overrides.on_change(paths.desanitize(name), overrides)

    def on_broker_change(self, changed: Mapping[str, tuple[object, object]]) -> None:
        """Values of this broker's configuration that are now different, as name to (old, new)."""
        server, config = self._server, self._server.config
        server.log_manager.update_default_config(LogConfig.from_mapping(topic_defaults(config)))
        if "num.io.threads" in changed:
            server.socket_server.handler_pool.resize(config.get_int("num.io.threads"))
        if "num.replica.fetchers" in changed and server.replica_manager.fetchers is not None:
            server.replica_manager.fetchers.resize(config.get_int("num.replica.fetchers"))
        if "unclean.leader.election.enable" in changed:
            enabled = config.get_bool("unclean.leader.election.enable")
            server.controller_settings.unclean_leader_election_enable = enabled
            if enabled:
                server.controller.enable_default_unclean_leader_election()
        server.replica_manager.on_broker_config()
