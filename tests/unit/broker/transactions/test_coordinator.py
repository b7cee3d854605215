"""The transaction coordinator against an in-memory state log and partition leaders that the test answers for."""

from __future__ import annotations

import pytest

from broker.transactions import records
from broker.transactions.config import TransactionConfig
from broker.transactions.coordinator import (
    ExpectedProducer,
    InitResult,
    TransactionCoordinator,
)
from broker.transactions.markers import MarkerManager
from broker.transactions.state import VALID_PREVIOUS, InvalidTransitionError, TransactionMetadata, TransactionState
from broker.transactions.store import TransactionStore
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
    """Leader of every partition; absent means deleted, None means that nobody lives."""

    def __init__(self) -> None:
        self.leader: dict[TopicPartition, int | None] = {T0: 1, T1: 2, U0: 1}

    def knows_partition(self, partition: TopicPartition) -> bool:
        return partition in self.leader

    def live_leader(self, partition: TopicPartition) -> int | None:
        return self.leader[partition]


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
        store = TransactionStore(self.log, 1, self.clock, config)
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


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_every_transition_outside_the_table_is_refused_and_changes_nothing() -> None:
    for target, previous in VALID_PREVIOUS.items():
        for state in set(S) - previous:
            metadata = TransactionMetadata("tx", 1, 1000, producer_epoch=0, state=state)
            with pytest.raises(InvalidTransitionError):
                metadata._prepare(target, now=5)
            assert metadata.pending_state is None
            assert metadata.state is state


def test_init_without_an_id_stores_nothing(cluster: Cluster) -> None:
    answer = cluster.init(None)
    assert (answer.error, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, 1001, 0)
    assert cluster.log.entries() == []


def test_commit_writes_markers_to_all_leaders_then_completes(cluster: Cluster) -> None:
    producer = cluster.begin(T0, T1)
    assert cluster.add(producer, U0) is ErrorCode.NONE
    assert cluster.end(producer, commit=True) is ErrorCode.NONE
    assert cluster.end(producer, commit=True) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert cluster.add(producer, T0) is ErrorCode.CONCURRENT_TRANSACTIONS
    cluster.deliver_markers()
    assert sorted(cluster.sent) == [(1, T0, True), (1, U0, True), (2, T1, True)]
    assert cluster.state is S.COMPLETE_COMMIT
    assert cluster.stored_states() == [S.EMPTY, S.ONGOING, S.ONGOING, S.PREPARE_COMMIT, S.COMPLETE_COMMIT]
    assert cluster.end(producer, commit=True) is ErrorCode.NONE
    assert cluster.end(producer, commit=False) is ErrorCode.INVALID_TXN_STATE
    assert cluster.coordinator.markers.pending_count == 0


def test_adding_known_partitions_writes_nothing(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    before = len(cluster.log.entries())
    assert cluster.add(producer, T0) is ErrorCode.NONE
    assert len(cluster.log.entries()) == before


def test_a_second_init_fences_the_open_transaction(cluster: Cluster) -> None:
    zombie = cluster.begin(T0)
    assert cluster.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert cluster.add(zombie, T1) is ErrorCode.PRODUCER_FENCED
    assert cluster.end(zombie, commit=True) is ErrorCode.PRODUCER_FENCED
    cluster.deliver_markers()
    assert cluster.sent == [(1, T0, False)]
    answer = cluster.init()
    assert (answer.error, answer.producer_epoch) == (ErrorCode.NONE, zombie.producer_epoch + 2)


def test_a_fence_whose_abort_was_not_stored_uses_its_epoch_again(cluster: Cluster) -> None:
    zombie = cluster.begin(T0)
    cluster.log.errors = [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert cluster.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert cluster.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    cluster.deliver_markers()
    assert cluster.init().producer_epoch == zombie.producer_epoch + 2


def test_a_lost_init_answer_is_given_again(cluster: Cluster) -> None:
    first = cluster.init()
    claimed = ExpectedProducer(first.producer_id, first.producer_epoch)
    bumped = cluster.init(expected=claimed)
    assert bumped.producer_epoch == 1
    assert cluster.init(expected=claimed) == bumped
    stranger = ExpectedProducer(77, 0)
    assert cluster.init(expected=stranger).error is ErrorCode.PRODUCER_FENCED


def test_an_exhausted_epoch_gets_a_new_producer_id(cluster: Cluster) -> None:
    first = cluster.init()
    metadata = cluster.coordinator.admin.describe("tx")
    metadata.producer_epoch = 32766
    answer = cluster.init(expected=ExpectedProducer(first.producer_id, 32766))
    assert answer.producer_epoch == 0
    assert answer.producer_id != first.producer_id
    assert (metadata.last_producer_id, metadata.last_producer_epoch) == (first.producer_id, 32766)
    # the retry of the rotation claims the old id with its exhausted epoch
    again = cluster.init(expected=ExpectedProducer(first.producer_id, 32766))
    assert (again.error, again.producer_id) == (ErrorCode.NONE, answer.producer_id)


@pytest.mark.parametrize("failure", [ErrorCode.NOT_LEADER_OR_FOLLOWER, OSError("reset"), ErrorCode.KAFKA_STORAGE_ERROR])
def test_failed_markers_go_to_the_current_leader(cluster: Cluster, failure: ErrorCode | OSError) -> None:
    producer = cluster.begin(T0)
    cluster.marker_errors[T0] = [failure]
    cluster.end(producer, commit=True)
    cluster.deliver_markers()
    assert cluster.state is S.PREPARE_COMMIT
    cluster.leaders.leader[T0] = 2
    cluster.advance(100)
    cluster.deliver_markers()
    assert cluster.sent == [(2, T0, True)]
    assert cluster.state is S.COMPLETE_COMMIT


def test_markers_survive_an_error_that_nobody_expects(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.marker_errors[T0] = [ValueError("planted")]
    cluster.end(producer, commit=True)
    with pytest.raises(ValueError, match="planted"):
        cluster.deliver_markers()
    cluster.advance(100)
    cluster.deliver_markers()
    assert cluster.sent == [(1, T0, True)]
    assert cluster.state is S.COMPLETE_COMMIT


def test_partitions_without_leader_wait_and_deleted_ones_are_done(cluster: Cluster) -> None:
    producer = cluster.begin(T0, T1)
    cluster.leaders.leader[T0] = None
    del cluster.leaders.leader[T1]
    cluster.end(producer, commit=False)
    cluster.advance(500)
    cluster.deliver_markers()
    assert cluster.state is S.PREPARE_ABORT
    cluster.leaders.leader[T0] = 1
    cluster.advance(100)
    cluster.deliver_markers()
    assert cluster.state is S.COMPLETE_ABORT


def test_markers_superseded_by_a_newer_owner_are_dropped(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.marker_errors[T0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    cluster.end(producer, commit=True)
    cluster.deliver_markers()
    cluster.advance(1000)
    cluster.deliver_markers()
    assert cluster.sent == []
    assert cluster.coordinator.markers.pending_count == 0


def test_a_complete_record_that_finds_no_replicas_is_stored_later(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.end(producer, commit=True)
    cluster.log.errors = [ErrorCode.NOT_ENOUGH_REPLICAS]
    cluster.deliver_markers()
    assert cluster.state is S.PREPARE_COMMIT
    assert cluster.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    cluster.advance(100)
    assert cluster.state is S.COMPLETE_COMMIT


@pytest.mark.parametrize("commit", [True, False])
def test_a_decided_transaction_survives_the_coordinator(cluster: Cluster, commit: bool) -> None:
    producer = cluster.begin(T0, T1)
    cluster.end(producer, commit=commit)
    cluster.coordinator.shutdown()
    cluster.restart(epoch=1)
    cluster.deliver_markers()
    assert sorted(cluster.sent) == [(1, T0, commit), (2, T1, commit)]
    assert cluster.state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)


def test_an_append_that_ends_after_the_partition_moved_is_not_coordinator(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.log.hold()
    answers: list[ErrorCode] = []
    cluster.coordinator.end_transaction("tx", producer, True, answers.append)
    cluster.coordinator.on_resignation(0, 1)
    cluster.log.acknowledge()
    assert answers == [ErrorCode.NOT_COORDINATOR]
    assert cluster.init().error is ErrorCode.NOT_COORDINATOR


def test_loading_answers_load_in_progress(cluster: Cluster) -> None:
    cluster.coordinator.store.begin_load(0, 1)
    assert cluster.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert cluster.coordinator.store.load(0, 1) == []
    assert cluster.init().error is ErrorCode.NONE


def test_an_overtaken_load_changes_nothing(cluster: Cluster) -> None:
    cluster.init()
    cluster.coordinator.store.begin_load(0, 1)
    cluster.coordinator.store.begin_load(0, 2)
    assert cluster.coordinator.store.load(0, 1) == []
    assert cluster.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.coordinator.on_resignation(0, 1)
    assert cluster.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_timed_out_transaction_is_fenced_and_aborted(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.advance(59_000)
    assert cluster.state is S.ONGOING
    cluster.advance(12_000)
    cluster.deliver_markers()
    assert cluster.sent == [(1, T0, False)]
    assert cluster.state is S.COMPLETE_ABORT
    assert cluster.end(producer, commit=True) is ErrorCode.PRODUCER_FENCED


def test_unused_ids_are_forgotten_with_a_tombstone(cluster: Cluster) -> None:
    cluster.init()
    cluster.clock.advance(604_800_000)
    cluster.coordinator.store.expire_ids(604_800_000)
    assert cluster.log.entries()[-1] == (records.encode_key("tx"), None)
    assert cluster.coordinator.store.lookup("tx")[1] is None


def test_an_id_whose_tombstone_was_not_stored_stays_usable(cluster: Cluster) -> None:
    cluster.init()
    cluster.clock.advance(604_800_000)
    cluster.log.errors = [ErrorCode.NOT_ENOUGH_REPLICAS]
    cluster.coordinator.store.expire_ids(604_800_000)
    assert cluster.state is S.EMPTY
    assert cluster.init().error is ErrorCode.NONE


def test_verification_knows_only_partitions_of_the_open_transaction(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    assert cluster.coordinator.verify_partitions("tx", producer, [T0, T1]) == {
        T0: ErrorCode.NONE,
        T1: ErrorCode.TRANSACTION_ABORTABLE,
    }
    stale = ExpectedProducer(producer.producer_id, producer.producer_epoch + 1)
    assert cluster.coordinator.verify_partitions("tx", stale, [T0]) == {T0: ErrorCode.PRODUCER_FENCED}
    other = ExpectedProducer(5, 0)
    assert cluster.coordinator.verify_partitions("tx", other, [T0]) == {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_out_of_range_are_refused(cluster: Cluster, timeout_ms: int) -> None:
    answers: list[InitResult] = []
    cluster.coordinator.init_producer_id("tx", timeout_ms, None, answers.append)
    assert answers == [InitResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)]


def test_list_filters(cluster: Cluster) -> None:
    producer = cluster.begin(T0)
    cluster.advance(2000)
    listing = cluster.coordinator.admin.list_transactions
    assert [m.transactional_id for m in listing(None, frozenset(), -1)] == ["tx"]
    assert listing(frozenset({S.EMPTY}), frozenset(), -1) == []
    assert listing(None, frozenset({producer.producer_id + 1}), -1) == []
    assert len(listing(None, frozenset(), 1000)) == 1
    assert listing(None, frozenset(), 3000) == []
