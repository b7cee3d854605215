"""The transaction coordinator against a state topic in memory and partition leaders that the test answers for."""

from __future__ import annotations

from broker.transactions import records
from broker.transactions.config import TransactionConfig
from broker.transactions.coordinator import (
    ExpectedProducer,
    InitResult,
    TransactionCoordinator,
)
from broker.transactions.markers import MarkerManager
from broker.transactions.state import TransactionState
from broker.transactions.state_manager import TransactionStateManager
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.support.internal_topic import MemoryTopic
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler

S = TransactionState
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
U0 = TopicPartition("u", 0)


class Leaders:
    """Leader of every partition; None means that nobody lives, absent that the controller has not told of it."""

    def __init__(self) -> None:
        self.leader: dict[TopicPartition, int | None] = {T0: 1, T1: 2, U0: 1}
        self.deleted: set[TopicPartition] = set()

    def is_deleted(self, partition: TopicPartition) -> bool:
        return partition in self.deleted

    def live_leader(self, partition: TopicPartition) -> int | None:
        return self.leader.get(partition)


class Cluster:
    """One coordinator and the brokers it sends markers to."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.log = MemoryTopic()
        self.leaders = Leaders()
        self.marker_errors: dict[TopicPartition, list[ErrorCode | Exception]] = {}
        self.sent: list[tuple[int, TopicPartition, bool]] = []
        self.last_id = 1000
        self.restart()

    def restart(self, epoch: int = 0) -> None:
        config = TransactionConfig()
        store = TransactionStateManager(self.log, 1, self.clock, config)
        markers = MarkerManager(store, self.leaders, self.transport, self.scheduler, threaded=False)
        self.coordinator = TransactionCoordinator(store, markers, self, self.scheduler, self.clock, config)
        self.coordinator.startup()
        self.coordinator.on_election(0, epoch)
        self.advance(1)

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def transport(self, broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        markers = []
        for marker in request.markers:
            topics = []
            for topic in marker.topics:
                results = []
                for index in topic.partition_indexes:
                    tp = TopicPartition(topic.name, index)
                    planned = self.marker_errors.get(tp, [])
                    error = planned.pop(0) if planned else ErrorCode.NONE
                    if isinstance(error, Exception):
                        raise error
                    if error is ErrorCode.NONE:
                        self.sent.append((broker_id, tp, marker.transaction_result))
                    results.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=int(error)))
                topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
            markers.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        return WriteTxnMarkersResponse(markers=markers)

    def advance(self, ms: int) -> None:
        for _ in range(ms // 50):
            self.clock.advance(50)
            self.scheduler.tick()
        self.clock.advance(ms % 50)
        self.scheduler.tick()

    def deliver_markers(self) -> None:
        for broker_id in (1, 2):
            self.coordinator.markers.step(broker_id)

    def init(self, transactional_id: str | None = "tx", expected: ExpectedProducer | None = None) -> InitResult:
        answers: list[InitResult] = []
        self.coordinator.init_producer_id(transactional_id, 60_000, expected, answers.append)
        assert len(answers) == 1
        return answers[0]

    def add(self, producer: ExpectedProducer, *partitions: TopicPartition) -> ErrorCode:
        answers: list[ErrorCode] = []
        self.coordinator.add_partitions("tx", producer, frozenset(partitions), answers.append)
        assert len(answers) == 1
        return answers[0]

    def end(self, producer: ExpectedProducer, commit: bool) -> ErrorCode:
        answers: list[ErrorCode] = []
        self.coordinator.end_transaction("tx", producer, commit, answers.append)
        assert len(answers) == 1
        return answers[0]

    def begin(self, *partitions: TopicPartition) -> ExpectedProducer:
        started = self.init()
        producer = ExpectedProducer(started.producer_id, started.producer_epoch)
        assert self.add(producer, *(partitions or (T0,))) is ErrorCode.NONE
        return producer

    @property
    def state(self) -> TransactionState:
        return self.coordinator.admin.describe("tx").state

    def stored_states(self) -> list[TransactionState]:
        states = []
        for key, value in self.log.entries():
            metadata = records.decode(key, value).metadata
            if metadata is not None:
                states.append(metadata.state)
        return states
