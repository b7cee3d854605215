"""The transaction coordinator's ties to the broker: its log, the metadata, and connections to other brokers."""

from __future__ import annotations

import threading
from typing import Any

from broker.coordinator.internal_topic import InternalTopic
from broker.coordinator.internal_topic_names import TRANSACTION_TOPIC, partition_for
from broker.requests.context import BrokerContext
from broker.transactions.config import TransactionConfig
from broker.transactions.coordinator import TransactionCoordinator
from broker.transactions.markers import MarkerManager
from broker.transactions.state_manager import TransactionStateManager
from broker.transactions.verifier import TransactionVerifier, UnsupportedByPeerError
from controller.zk.payloads import PayloadError
from controller.zk.session import ZkError
from log.topic_partition import TopicPartition
from network.client.connection import Connection, ConnectionFailed
from network.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from timer.scheduler import Scheduler

VERIFY_VERSION = 4
MARKERS_VERSION = 1


class PeerConnections:
    """One connection a broker for one sender; closed when a call fails, made again at the next.

    Each broker is called by one thread only (see `workers`).
    """

    def __init__(self, broker: BrokerContext, client_id: str) -> None:
        self._broker = broker
        self._client_id = client_id
        self._lock = threading.Lock()
        self._open: dict[int, Connection] = {}

    def call(self, broker_id: int, message: Any, version: int) -> Any:
        """Send and wait; raises OSError when there is no answer."""
        try:
            return self.get(broker_id).call(message, version, self._broker.config.get_int("request.timeout.ms"))
        except OSError:
            self.drop(broker_id)
            raise

    def get(self, broker_id: int) -> Connection:
        """The connection to a broker; raises ConnectionFailed."""
        with self._lock:
            known = self._open.get(broker_id)
        if known is not None and not known.closed:
            return known
        config = self._broker.config
        node = self._broker.metadata_cache.broker_node(broker_id, config.inter_broker_listener_name)
        if node is None:
            raise ConnectionFailed(f"broker {broker_id} has no endpoint on {config.inter_broker_listener_name}")
        made = Connection(
            node.host, node.port, self._client_id, self._broker.clock, wrap=self._broker.peer_security.inter_broker
        )
        with self._lock:
            self._open[broker_id] = made
        return made

    def drop(self, broker_id: int) -> None:
        """Close the connection to a broker."""
        with self._lock:
            known = self._open.pop(broker_id, None)
        if known is not None:
            known.close()

    def close(self) -> None:
        """Close all; calls under way fail."""
        with self._lock:
            connections = list(self._open.values())
            self._open.clear()
        for connection in connections:
            connection.close()


class MetadataLeaders:
    """Leaders as the metadata cache knows them, and deletions as ZooKeeper does.

    That the cache does not have a partition says nothing by itself: a broker that has just started may lead a partition
    of the coordinator before the controller has told it of any other.
    """

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker

    def is_deleted(self, partition: TopicPartition) -> bool:
        """As soon as it is asked for: what is deleted has no leader any more, and never again one."""
        if self._broker.metadata_cache.contains(partition.topic, partition.partition):
            return False
        try:
            known = self._broker.zk.topic(partition.topic)
            if known is None or partition.partition not in known.assignment:
                return True
            return self._broker.zk.topic_marked_for_deletion(partition.topic)
        except (ZkError, PayloadError):
            return False

    def live_leader(self, partition: TopicPartition) -> int | None:
        state = self._broker.metadata_cache.partition_state(partition.topic, partition.partition)
        if state is None or not self._broker.metadata_cache.is_alive(state.leader):
            return None
        return state.leader


class Transactions:
    """Everything of this broker that has to do with transactions: made, hooked in and started; stopped as one."""

    def __init__(self, broker: BrokerContext, scheduler: Scheduler) -> None:
        config = broker.config
        self._connections = PeerConnections(broker, f"broker-{broker.broker_id}-txn-marker-sender")
        self._questions = PeerConnections(broker, f"AddPartitionsManager-{broker.broker_id}")
        self._versions: dict[int, tuple[Connection, bool]] = {}
        known = broker.zk.topic(TRANSACTION_TOPIC)
        self._partitions = (
            len(known.assignment) if known is not None else config.get_int("transaction.state.log.num.partitions")
        )
        settings = TransactionConfig.from_kafka_config(config)
        topic = InternalTopic(
            TRANSACTION_TOPIC, broker.replica_manager, lambda question: self.verifier.verify(question)
        )
        store = TransactionStateManager(topic, self._partitions, broker.clock, settings, broker.metrics)
        self._leaders = MetadataLeaders(broker)
        markers = MarkerManager(
            store,
            self._leaders,
            self._send_markers,
            scheduler,
            clock=broker.clock,
            workers=broker.workers,
            metrics=broker.metrics,
        )
        self.coordinator = TransactionCoordinator(
            store,
            markers,
            broker.producer_ids,
            scheduler,
            broker.clock,
            settings,
        )
        self.verifier = TransactionVerifier(
            self._coordinator_of, self._ask, clock=broker.clock, workers=broker.workers, metrics=broker.metrics
        )

        broker.txn_coordinator = self.coordinator
        broker.transaction_verifier = self.verifier
        broker.coordinator_hooks[TRANSACTION_TOPIC] = self.coordinator
        self.coordinator.startup()

    def shutdown(self) -> None:
        """Stop threads and close connections."""
        self._connections.close()
        self._questions.close()
        self.verifier.shutdown()
        self.coordinator.shutdown()

    def _send_markers(self, broker_id: int, request: WriteTxnMarkersRequest) -> Any:
        return self._connections.call(broker_id, request, MARKERS_VERSION)

    def _coordinator_of(self, transactional_id: str) -> int | None:
        partition = TopicPartition(TRANSACTION_TOPIC, partition_for(transactional_id, self._partitions))
        return self._leaders.live_leader(partition)

    def _ask(self, broker_id: int, request: AddPartitionsToTxnRequest) -> Any:
        connection = self._questions.get(broker_id)
        known = self._versions.get(broker_id)
        if known is None or known[0] is not connection:
            response = self._questions.call(broker_id, ApiVersionsRequest(), 0)
            newest = {entry.api_key: entry.max_version for entry in response.api_keys}
            known = connection, newest.get(request.API_KEY, -1) >= VERIFY_VERSION
            self._versions[broker_id] = known
        if not known[1]:
            raise UnsupportedByPeerError(broker_id)
        return self._questions.call(broker_id, request, VERIFY_VERSION)
