"""An unexpected error planted into one step of each loop of a broker: it is told once, counted, and the loop goes on.

The steps are called as their threads would, by `Worker.turn`; what is planted is an error that no code expects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.cluster.controller_channel import ControllerChannel
from broker.cluster.metadata_cache import MetadataCache
from broker.coordinator.batch_verification import Question
from broker.metrics import MetricsRegistry
from broker.replication.follower.fetch_state import InitialFetchState
from broker.replication.follower.fetcher import FailedPartitions, FollowerSide, ReplicaFetcher
from broker.replication.isr.alter_partition import AlterPartitionManager
from broker.replication.isr.state import LeaderAndIsr, LeaderRecoveryState
from broker.replication.log_dirs.failure_queue import LogDirFailures
from broker.replication.log_dirs.moves import LogDirMover
from broker.replication.partitions import Partitions
from broker.transactions.verifier import TransactionVerifier
from controller.channel_manager import BrokerChannel
from controller.event_manager import ControllerEventManager, ControllerState, Event
from controller.zk.reruns import Reruns
from log.cleaner.cleaner_threads import CleanerConfig, LogCleaner
from log.topic_partition import TopicPartition
from network.protocol.api import API, ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages import alter_partition as ap
from network.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from network.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from tests.support.sockets import wait_until
from tests.unit.broker.harness import TOPIC_ID, TP, LeadingBroker
from timer.clock import ManualClock, SystemClock
from timer.executor import InlineExecutor
from timer.purgatory import DelayedOperation, Purgatory
from timer.scheduler import BackgroundScheduler, ManualScheduler
from timer.timer import SystemTimer
from timer.worker import GROUP, TYPE, Worker, Workers


class Planted(Exception):
    """No code expects it."""


class Flaky:
    """A function that raises `Planted` the first `failures` times that it is called, and notes all calls."""

    def __init__(self, work: Callable[..., Any] = lambda *_: None, failures: int = 1) -> None:
        self.calls: list[Any] = []
        self._work = work
        self._failures = failures

    def __call__(self, *arguments: Any) -> Any:
        self.calls.append(arguments)
        if len(self.calls) <= self._failures:
            raise Planted("planted")
        return self._work(*arguments)


class Loops:
    """The workers of a broker under test."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.metrics = MetricsRegistry()
        self.workers = Workers(self.metrics)
        self.clock = ManualClock()
        self._caplog = caplog

    @property
    def worker(self) -> Worker:
        (worker,) = self.workers
        return worker

    def fail(self) -> None:
        """The next turn meets what was planted: told once with its cause, counted, and put off."""
        worker = self.worker
        due = worker.turn()
        assert due is not None
        assert due > 0
        assert isinstance(worker.last_error, Planted)
        assert self.workers.failing() == [worker]
        self.told_once()

    def go_on(self) -> None:
        self.worker.turn()
        assert self.worker.failures == 1
        assert self.workers.failing() == []
        self.told_once()

    def told_once(self) -> None:
        causes = [record.exc_info[1] for record in self._caplog.records if record.exc_info]
        assert len(causes) == 1
        assert isinstance(causes[0], Planted)
        assert self.metrics.meter(GROUP, TYPE, "ErrorsPerSec", worker=self.worker.name).count == 1


@pytest.fixture
def loops(caplog: pytest.LogCaptureFixture) -> Iterator[Loops]:
    loops = Loops(caplog)
    yield loops
    for worker in loops.workers:
        worker.stop()


# -- the controller channel, and the ISR changes that hang on it -------------------------------------------------------


class Controller:
    """The controller at the other end of a connection: says yes to every AlterPartition, if nothing is planted."""

    closed = False

    def __init__(self) -> None:
        self.alter = Flaky(self._yes, failures=0)
        self.recovery_state = 0

    def connect(self, node: object) -> Any:
        return self

    def close(self) -> None:
        pass

    def call(self, request: Any, version: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            newest = API[ApiKey.ALTER_PARTITION].max_version
            served = ApiVersion(api_key=ApiKey.ALTER_PARTITION, min_version=0, max_version=newest)
            return ApiVersionsResponse(api_keys=[served])
        return self.alter(request)

    def _yes(self, request: ap.AlterPartitionRequest) -> ap.AlterPartitionResponse:
        topics = [
            ap.TopicDataResponse(
                topic_name=topic.topic_name,
                topic_id=topic.topic_id,
                partitions=[
                    ap.PartitionDataResponse(
                        partition_index=wanted.partition_index,
                        leader_id=1,
                        leader_epoch=wanted.leader_epoch,
                        isr=wanted.new_isr or [member.broker_id for member in wanted.new_isr_with_epochs],
                        leader_recovery_state=self.recovery_state,
                        partition_epoch=wanted.partition_epoch + 1,
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return ap.AlterPartitionResponse(topics=topics)


class IsrChanges:
    """The real sender of ISR changes over the real channel of a broker."""

    def __init__(self, loops: Loops, controller: Controller) -> None:
        cache = MetadataCache(1)
        endpoint = UpdateMetadataEndpoint(port=1, host="h", listener="PLAINTEXT")
        brokers = [UpdateMetadataBroker(id=1, endpoints=[endpoint])]
        cache.update(UpdateMetadataRequest(controller_id=1, live_brokers=brokers), 8)
        self.clock = loops.clock
        self.scheduler = ManualScheduler(loops.clock)
        self.channel = ControllerChannel(
            "to-controller", cache, "PLAINTEXT", loops.clock, controller.connect, workers=loops.workers
        )
        self.manager = AlterPartitionManager(1, lambda: 7, lambda topic_id: "t", self.channel, self.scheduler)
        self.answers: list[LeaderAndIsr | ErrorCode] = []

    def propose(self, *isr: int, partition: int = 0) -> None:
        proposal = LeaderAndIsr(1, 3, isr, LeaderRecoveryState.RECOVERED, 5)
        self.manager.submit(TopicPartition("t", partition), TOPIC_ID, proposal, 1, self.answers.append)

    def retry(self) -> None:
        self.clock.advance(1_000)
        self.scheduler.tick()


def test_isr_changes_go_through_after_an_error_in_the_controller_channel(loops: Loops) -> None:
    controller = Controller()
    changes = IsrChanges(loops, controller)
    controller.alter = Flaky(controller.alter)
    changes.propose(1)
    loops.fail()
    assert changes.answers == []
    loops.go_on()
    changes.propose(1, 2)
    loops.go_on()
    assert [answer.isr for answer in changes.answers if isinstance(answer, LeaderAndIsr)] == [(1,), (1, 2)]


def test_isr_changes_go_through_after_an_error_in_making_the_request(loops: Loops) -> None:
    changes = IsrChanges(loops, Controller())
    changes.manager._broker_epoch = Flaky(lambda: 7)
    changes.propose(1)
    loops.fail()
    loops.go_on()
    assert len(changes.answers) == 1


def test_isr_changes_go_through_after_an_answer_that_cannot_be_used(loops: Loops) -> None:
    controller = Controller()
    changes = IsrChanges(loops, controller)
    controller.recovery_state = 99
    changes.propose(1)
    loops.worker.turn()
    assert changes.answers == []
    assert loops.worker.turn() is None, "not asked again at once"
    controller.recovery_state = 0
    changes.retry()
    loops.worker.turn()
    assert [answer.isr for answer in changes.answers if isinstance(answer, LeaderAndIsr)] == [(1,)]


def test_isr_changes_go_through_after_an_error_in_reading_an_answer(loops: Loops) -> None:
    changes = IsrChanges(loops, Controller())
    read = changes.manager._answers
    changes.manager._answers = Flaky(read)  # type: ignore[method-assign, assignment]
    changes.propose(1)
    loops.fail()
    changes.retry()
    loops.go_on()
    assert len(changes.answers) == 1


# -- the others --------------------------------------------------------------------------------------------------------


class Leader:
    """A leader that has nothing new."""

    def __init__(self) -> None:
        self.fetch = Flaky(lambda wanted, changed: {})
        self.epoch_end_offsets = Flaky(lambda asked: {}, failures=0)

    def close(self) -> None:
        pass


def test_fetcher(loops: Loops, tmp_path: Path) -> None:
    broker = LeadingBroker(tmp_path)
    broker.obey(2, [1, 2], 1)
    leader: Any = Leader()
    manager = broker.manager
    side = FollowerSide(manager.partitions, manager.traffic, manager.config.version, lambda tp: None)
    fetcher = ReplicaFetcher(
        "fetcher", leader, side, FailedPartitions(), loops.clock, 1_000, 1 << 20, workers=loops.workers
    )
    node: Any = SimpleNamespace(id=2)
    fetcher.add({TP: InitialFetchState(TOPIC_ID, node, 1, 0)})
    loops.fail()
    assert fetcher.count == 1
    loops.go_on()
    assert len(leader.fetch.calls) == 2
    assert not fetcher.is_dead


def test_log_dir_mover(loops: Loops) -> None:
    partitions = Partitions(lambda topic, partition: False)
    no_logs: Any = None
    quota: Any = SimpleNamespace(is_exceeded=Flaky(lambda: False))
    mover = LogDirMover("mover", partitions, no_logs, lambda tp: None, quota, loops.clock, 1_000, loops.workers)
    mover._partitions.add(TP)
    loops.fail()
    assert mover.partitions == [TP]
    loops.go_on()
    assert mover.partitions == []


def test_log_dir_failures_are_handled_again_and_hold_up_no_other(loops: Loops) -> None:
    handle = Flaky()
    failures = LogDirFailures(handle, loops.clock, loops.workers)
    failures.on_failure("/a")
    failures.on_failure("/b")
    loops.fail()
    loops.go_on()
    loops.go_on()
    loops.go_on()
    assert handle.calls == [("/a",), ("/b",), ("/a",)]


def test_questions_to_a_transaction_coordinator_are_answered(loops: Loops) -> None:
    transport = Flaky()
    verifier = TransactionVerifier(
        lambda transactional_id: 2,
        transport,  # type: ignore[arg-type]
        threaded=False,
        clock=loops.clock,
        workers=loops.workers,
    )
    answers: list[dict[TopicPartition, ErrorCode]] = []
    verifier.verify(Question("tx", 1, 0, [TP], answers.append))
    loops.fail()
    assert answers == [{TP: ErrorCode.NETWORK_EXCEPTION}]
    loops.go_on()


def test_channel_of_the_controller_to_a_broker(loops: Loops) -> None:
    call = Flaky(lambda request, version: UpdateMetadataResponse())
    connection: Any = SimpleNamespace(call=call, close=lambda: None)
    broker: Any = SimpleNamespace(id=2)
    channel = BrokerChannel(1, broker, lambda _: connection, loops.clock, loops.metrics, loops.workers)
    answers: list[Any] = []
    channel.put(UpdateMetadataRequest(controller_id=1), 8, answers.append)
    loops.fail()
    assert len(channel) == 1
    loops.go_on()
    assert len(answers) == 1
    assert len(channel) == 0


def test_event_thread_goes_on_though_its_own_error_handling_fails(loops: Loops) -> None:
    def fail() -> None:
        raise ValueError("an event")

    done: list[str] = []
    events = ControllerEventManager(loops.clock, Flaky(), loops.metrics, workers=loops.workers)
    events.put(Event("bad", ControllerState.IDLE, fail))
    events.put(Event("good", ControllerState.IDLE, lambda: done.append("good")))
    loops.fail()
    loops.go_on()
    assert done == ["good"]


def test_reruns_run_again_unasked(loops: Loops) -> None:
    run = Flaky()
    reruns = Reruns("reruns", run, loops.clock, loops.workers)
    reruns.request()
    loops.fail()
    loops.go_on()
    assert len(run.calls) == 2
    assert reruns.step() is None


def test_purgatory_reaper(loops: Loops) -> None:
    timer = SystemTimer("t", SystemClock(), InlineExecutor())
    advance = Flaky(timer.advance)
    timer.advance = advance  # type: ignore[method-assign, assignment]
    purgatory: Purgatory[DelayedOperation] = Purgatory("Planted", timer, workers=loops.workers)
    wait_until(lambda: len(advance.calls) >= 2, "another round of the reaper")
    loops.told_once()
    assert not loops.worker.is_dead
    purgatory.shutdown()


def test_scheduler(loops: Loops) -> None:
    scheduler = BackgroundScheduler(1, SystemClock(), "planted", loops.workers)
    ran: list[str] = []
    scheduler.startup()
    timer = scheduler._timer
    assert timer is not None
    advance = Flaky(timer.advance)
    timer.advance = advance  # type: ignore[method-assign, assignment]
    timer.wakeup()
    wait_until(lambda: len(advance.calls) >= 2, "another round")
    loops.told_once()
    scheduler.schedule_once("task", lambda: ran.append("task"))
    wait_until(lambda: ran == ["task"], "a task after the error")
    scheduler.shutdown()


def test_log_cleaner_ends_as_kafkas_does_and_tells(loops: Loops, caplog: pytest.LogCaptureFixture) -> None:
    cleaner = LogCleaner(list, list, SystemClock(), CleanerConfig(threads=2), loops.metrics, workers=loops.workers)
    cleaner.manager.grab_filthiest = Flaky(lambda: None)  # type: ignore[method-assign]
    cleaner.startup()
    wait_until(lambda: cleaner.dead_threads == 1, "a dead thread")
    assert loops.metrics.value("kafka.log", "LogCleaner", "DeadThreadCount") == 1
    assert len(loops.workers.dead()) == 1
    assert "kafka-log-cleaner-thread-" in caplog.text
    assert "ends: a step failed unexpectedly" in caplog.text
    cleaner.shutdown()
    assert list(loops.workers) == []
