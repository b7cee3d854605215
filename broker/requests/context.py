"""What a handler can reach: the parts of one running broker.

`BrokerServer` fills the context in start-up order. Handlers run only after request processing is enabled, when every
field is set; parts that are built by other packages are typed by what handlers need of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from broker.fetching.conversion_queue import RunConversion, run_at_once
from broker.requests.action_queue import ActionQueue
from broker.requests.start_gate import StartGate
from timer.worker import Workers

if TYPE_CHECKING:
    from broker.cluster.metadata_cache import MetadataCache
    from broker.config.admin import ConfigAdmin
    from broker.config.kafka_config import KafkaConfig
    from broker.config.view import ConfigView
    from broker.fetching.fetch_contexts import FetchManager
    from broker.groups.coordinator import GroupCoordinator
    from broker.metrics import MetricsRegistry
    from broker.quotas.quotas import Quotas
    from broker.replication.become_leader_or_follower import RoleChanges
    from broker.replication.replica_manager import ReplicaManager
    from broker.requests.authorization import Authorizer
    from broker.security.acl_authorizer import AclAuthorizer
    from broker.security.peers import PeerSecurity
    from broker.security.tokens.manager import TokenManager
    from broker.telemetry.telemetry import ClientTelemetry
    from broker.topics.auto_topic_creation import AutoTopicCreation
    from broker.topics.topic_admin import TopicAdmin
    from broker.transactions.coordinator import TransactionCoordinator
    from broker.transactions.producer_ids import ProducerIdManager
    from broker.transactions.verifier import TransactionVerifier
    from controller.controller import Controller
    from controller.zk.admin import AdminZkClient
    from controller.zk.client import ZkClient
    from log.topic_partition import TopicPartition
    from timer.chance import Chance
    from timer.clock import Clock
    from timer.news import News


class CoordinatorHooks(Protocol):
    """A coordinator whose state lives in the partitions of an internal topic."""

    def on_election(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition from now on. Must not block: the replica state change lock is held."""
        ...

    def on_resignation(self, partition: int, leader_epoch: int | None) -> None:
        """This broker does not lead the partition any more; `None` means whatever the epoch. Must not block."""
        ...


@dataclass(frozen=True, slots=True)
class Features:
    """Finalized features from `/feature`; the epoch is the version of that znode, -1 if unknown."""

    epoch: int = -1
    levels: Mapping[str, int] = field(default_factory=dict)


class BrokerContext:
    """The collaborators of one broker. One instance lives as long as its `BrokerServer`."""

    config: KafkaConfig
    clock: Clock
    client_faults: News
    """What is wrong with clients, which ask again and again: for the log."""
    chance: Chance
    metrics: MetricsRegistry
    metadata_cache: MetadataCache
    replica_manager: ReplicaManager
    role_changes: RoleChanges
    fetch_manager: FetchManager
    fetch_max_bytes: int
    authorizer: Authorizer
    acls: AclAuthorizer | None
    quotas: Quotas
    peer_security: PeerSecurity
    zk: ZkClient
    zk_admin: AdminZkClient
    topic_admin: TopicAdmin
    auto_topic_creation: AutoTopicCreation
    config_admin: ConfigAdmin
    config_view: ConfigView
    producer_ids: ProducerIdManager
    controller: Controller
    group_coordinator: GroupCoordinator
    tokens: TokenManager | None
    telemetry: ClientTelemetry | None
    txn_coordinator: TransactionCoordinator
    transaction_verifier: TransactionVerifier
    cluster_id: str
    broker_id: int

    def __init__(self) -> None:
        self.served_versions: dict[int, tuple[int, int]] = {}
        """By API key: the lowest and the highest version that this broker serves."""
        self.action_queue = ActionQueue()
        self.start_gate = StartGate()
        self.workers = Workers(after_step=self.action_queue.run)
        """Every thread of this broker that serves no connection; `BrokerServer` makes them visible in its metrics."""
        self.broker_epoch = -1
        self.features = Features()
        self.run_conversion: RunConversion = run_at_once
        """Where records are converted for old consumers."""
        self.coordinator_hooks: dict[str, CoordinatorHooks] = {}
        """By the name of the internal topic."""
        self.partition_deletion_listeners: list[Callable[[list[TopicPartition]], None]] = []
        """Told of partitions that were deleted from the metadata."""

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the active controller."""
        return self.controller is not None and self.controller.is_active

    def topic_purgatory_check(self, topics: set[str]) -> None:
        self.topic_admin.check_waiting(topics)
