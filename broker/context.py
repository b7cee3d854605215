"""What a handler can reach: the parts of one running broker.

`BrokerServer` fills the context in start-up order. Handlers run only after request processing is enabled, when every
field is set; parts that are built by other packages are typed by what handlers need of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.action_queue import ActionQueue

if TYPE_CHECKING:
    from broker.api.authorization import Authorizer
    from broker.config.kafka_config import KafkaConfig
    from broker.metadata_cache import MetadataCache
    from broker.metrics import MetricsRegistry
    from broker.replication.replica_manager import ReplicaManager
    from network.request import Request
    from network.request_channel import RequestChannel
    from timer.clock import Clock


class BrokerContext:
    """The collaborators of one broker. One instance lives as long as its `BrokerServer`."""

    config: KafkaConfig
    clock: Clock
    metrics: MetricsRegistry
    metadata_cache: MetadataCache
    replica_manager: ReplicaManager
    authorizer: Authorizer
    zk: Any  # controller.zk.client.ZkClient
    admin: Any  # broker.admin_manager.AdminManager
    controller: Any  # controller.controller.Controller
    group_coordinator: Any
    txn_coordinator: Any
    producer_ids: Any  # broker.producer_ids.ProducerIdManager
    auto_topic_creation: Any  # broker.auto_topic_creation.AutoTopicCreation
    config_manager: Any  # broker.config_manager.ConfigManager
    quotas: Any
    cluster_id: str
    broker_id: int

    def __init__(self) -> None:
        self.action_queue = ActionQueue()
        self.broker_epoch = -1
        self._channel: RequestChannel | None = None

    def use_request_channel(self, channel: RequestChannel) -> None:
        self._channel = channel

    def request_channel(self, request: Request) -> RequestChannel:
        """The channel that `request` came through (data plane or control plane)."""
        channel = self._channel
        assert channel is not None
        return channel
