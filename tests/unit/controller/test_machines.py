"""Invalid transitions, request batches in every version, the event queue, and the channels to brokers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from broker.config.versions import MetadataVersion
from controller.channel_manager import ChannelManager
from controller.config import ControllerConfig
from controller.context import ControllerContext
from controller.event_manager import ControllerEventManager, ControllerState, Event
from controller.partition_state_machine import StateChangeFailed
from controller.request_batch import RequestBatch, ResponseHandlers
from controller.states import PartitionReplica, PartitionStatus, ReplicaStatus
from controller.zk.payloads import BrokerInfo, PartitionState, ReplicaAssignment
from network.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from network.protocol.messages.stop_replica import StopReplicaRequest
from network.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tests.unit.controller.harness import Harness, RecordingChannels, broker_info, leaderships, stopped, tp
from timer.clock import ManualClock, SystemClock


def test_invalid_transitions_are_skipped_and_valid_ones_go_on(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [1, 2], 1: [2, 1]})
    core = cluster.controller._core
    core.partitions.change([tp("t-0")], PartitionStatus.OFFLINE)
    results = core.partitions.change([tp("t-0"), tp("t-1")], PartitionStatus.NON_EXISTENT)
    assert isinstance(results[tp("t-1")], StateChangeFailed)
    assert cluster.context.partition_state(tp("t-0")) is PartitionStatus.NON_EXISTENT
    assert cluster.context.partition_state(tp("t-1")) is PartitionStatus.ONLINE
    cluster.take()
    replica = PartitionReplica(tp("t-1"), 2)
    core.replicas.change([replica], ReplicaStatus.DELETION_STARTED)
    assert cluster.context.replica_state(replica) is ReplicaStatus.ONLINE
    assert cluster.take() == []


def batch_of(version: str) -> tuple[RequestBatch, ControllerContext, RecordingChannels]:
    config = ControllerConfig(1, MetadataVersion(version))
    context, channels = ControllerContext(), RecordingChannels(answer=False)
    context.epoch = 4
    for broker in (1, 2):
        info = broker_info(broker, rack=f"r{broker}")
        context.brokers[broker] = BrokerInfo(info.id, info.endpoints, info.rack, epoch=100 + broker)
    channels.start(context.brokers.values())
    context.set_assignment(tp("t-0"), ReplicaAssignment((1, 2, 9)))
    context.set_assignment(tp("u-0"), ReplicaAssignment((2,)))
    context.topic_ids["t"] = bytes(range(16))
    context.set_leadership(tp("t-0"), PartitionState(1, 3, (1, 2), 4, partition_epoch=8))
    nothing: Callable[..., None] = lambda *_: None  # noqa: E731
    return RequestBatch(config, context, channels, ResponseHandlers(nothing, nothing, nothing)), context, channels


@pytest.mark.parametrize(
    ("ibp", "lisr", "umr", "sr"),
    [
        ("3.9", 7, 8, 4),
        ("3.3", 6, 7, 3),
        ("2.8", 5, 7, 3),
        ("2.7", 4, 6, 3),
        ("2.6", 4, 6, 3),
        ("2.4-IV0", 3, 5, 1),
        ("2.3", 2, 5, 1),
        ("1.0", 1, 4, 0),
        ("0.11.0", 0, 3, 0),
        ("0.9.0", 0, 1, 0),
        ("0.8.2", 0, 0, 0),
    ],
)
def test_versions_and_layouts(ibp: str, lisr: int, umr: int, sr: int) -> None:
    batch, context, channels = batch_of(ibp)
    state = context.leadership[tp("t-0")]
    with batch:
        batch.add_leader_and_isr([1, 2, -1, 9], tp("t-0"), state, context.assignment(tp("t-0")), is_new=True)
        batch.add_leader_and_isr([2], tp("t-0"), state, context.assignment(tp("t-0")), is_new=False)
        batch.add_stop_replica([2], tp("t-0"), delete=True)
        batch.add_stop_replica([2], tp("t-0"), delete=False)
        batch.add_stop_replica([2], tp("u-0"), delete=False)
    kinds = [(type(item.request), item.broker, item.version) for item in channels.sent]
    assert kinds[:4] == [
        (LeaderAndIsrRequest, 1, lisr),
        (LeaderAndIsrRequest, 2, lisr),
        (UpdateMetadataRequest, 1, umr),
        (UpdateMetadataRequest, 2, umr),
    ]
    assert kinds[4:] == [(StopReplicaRequest, 2, sr)] * (1 if sr >= 3 else 2)
    # What arrives after the wire, in that version.
    requests = [type(item.request).decode(item.request.encode(item.version), item.version) for item in channels.sent]
    states = [
        *requests[1].ungrouped_partition_states,
        *(item for topic in requests[1].topic_states for item in topic.partition_states),
    ]
    assert len(states) == 1
    assert (states[0].leader, states[0].leader_epoch, states[0].isr, states[0].replicas) == (1, 3, [1, 2], [1, 2, 9])
    assert states[0].is_new == (lisr >= 1)
    assert [leader.port for leader in requests[1].live_leaders] == [9001]
    if lisr >= 2:
        assert requests[1].broker_epoch == 102
    described = [
        *requests[2].ungrouped_partition_states,
        *(item for topic in requests[2].topic_states for item in topic.partition_states),
    ]
    assert [(item.partition_index, item.zk_version) for item in described] == [(0, 8)]
    if umr >= 4:
        assert described[0].offline_replicas == [9]
    assert [broker.id for broker in requests[2].live_brokers] == [1, 2]
    if umr >= 1:
        assert requests[2].live_brokers[0].endpoints[0].port == 9001
    else:
        assert requests[2].live_brokers[0].v0_port == 9001
    if sr >= 3:
        assert stopped(channels.sent[4]) == {tp("t-0"): (3, True), tp("u-0"): (-1, False)}
    else:
        assert [request.delete_partitions for request in requests[4:]] == [True, False]


def test_batch_is_dropped_on_an_error_and_usable_again() -> None:
    batch, _, channels = batch_of("3.9")

    def fail() -> None:
        with batch:
            batch.add_update_metadata([1], [tp("t-0")])
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        fail()
    with batch:
        batch.add_update_metadata([2], [])
    assert [(item.broker, item.request.topic_states) for item in channels.sent] == [(2, [])]
    with batch, pytest.raises(RuntimeError):
        batch.__enter__()


def test_partitions_being_deleted_show_leader_minus_two() -> None:
    batch, context, channels = batch_of("3.9")
    context.queue_for_deletion(["t"])
    with batch:
        batch.add_update_metadata([1], [tp("t-0")])
        batch.add_stop_replica([1], tp("t-0"), delete=False)
    state = leaderships(channels.sent[0])[tp("t-0")]
    assert (state.leader, state.leader_epoch) == (-2, 0)
    assert stopped(channels.sent[1]) == {tp("t-0"): (-2, False)}


# -- event queue -------------------------------------------------------------------------------------------------------


def test_each_event_is_processed_or_preempted_once() -> None:
    log: list[str] = []
    errors: list[Exception] = []
    manager = ControllerEventManager(ManualClock(), lambda _, error: errors.append(error))

    def event(name: str) -> Event:
        return Event(
            name, ControllerState.IDLE, lambda: log.append(f"{name} done"), lambda: log.append(f"{name} dropped")
        )

    def fail() -> None:
        raise ValueError("wrong")

    manager.put(event("a"))
    manager.put(Event("bad", ControllerState.IDLE, fail))
    manager.put(event("b"))
    while manager.step() is not None:
        pass
    assert log == ["a done", "b done"]
    assert [str(error) for error in errors] == ["wrong"]
    log.clear()
    manager.put(event("c"))
    manager.put(event("d"))
    manager.clear_and_put(event("expire"))
    assert log == ["c dropped", "d dropped"]
    assert manager.step() == 0
    assert manager.step() is None
    manager.close(event("last"))
    manager.put(event("late"))
    assert log[2:] == ["expire done", "last done", "late dropped"]


def test_waiting_for_the_start_of_an_event_means_the_running_one_has_ended() -> None:
    manager = ControllerEventManager(SystemClock(), lambda *_: None)
    running, release, ended = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        running.set()
        release.wait(60)
        ended.set()

    manager.start()
    manager.put(Event("slow", ControllerState.IDLE, slow))
    assert running.wait(60)
    expire = Event("expire", ControllerState.IDLE, lambda: None)
    manager.clear_and_put(expire)
    threading.Timer(0.05, release.set).start()
    manager.await_start(expire)
    assert ended.is_set()
    manager.close(Event("last", ControllerState.IDLE, lambda: None))


# -- channels ----------------------------------------------------------------------------------------------------------


class FlakyConnection:
    """Fails as often as told, then answers."""

    def __init__(self, log: list[int], failures: list[OSError]) -> None:
        self._log = log
        self._failures = failures
        self._closed = threading.Event()

    def call(self, message: Any, version: int) -> Any:
        self._log.append(message.controller_id)
        if self._failures:
            raise self._failures.pop()
        return UpdateMetadataResponse()

    def close(self) -> None:
        self._closed.set()


def test_channel_keeps_order_and_repeats_the_same_request() -> None:
    log: list[int] = []
    failures: list[OSError] = [ConnectionResetError(), ConnectionRefusedError()]
    connects: list[int] = []

    def connect(broker: BrokerInfo) -> FlakyConnection:
        connects.append(broker.id)
        if len(connects) == 1:
            raise OSError("refused")
        return FlakyConnection(log, failures)

    manager = ChannelManager(1, connect, SystemClock())
    answered: list[int] = []
    done = threading.Event()
    manager.start([broker_info(2)])
    for number in range(1, 4):

        def answer(_: Any, number: int = number) -> None:
            answered.append(number)
            if number == 3:
                done.set()

        manager.send(2, UpdateMetadataRequest(controller_id=number), 8, answer)
    assert done.wait(60)
    assert answered == [1, 2, 3]
    assert log == [1, 1, 1, 2, 3]
    assert len(connects) == 4
    manager.shutdown()


def test_one_dead_broker_delays_nobody_and_its_queue_goes_with_it() -> None:
    log: list[int] = []
    blocked = threading.Event()

    def connect(broker: BrokerInfo) -> FlakyConnection:
        if broker.id == 2:
            blocked.wait(60)
            raise OSError("dead")
        return FlakyConnection(log, [])

    manager = ChannelManager(1, connect, SystemClock())
    manager.start([broker_info(2), broker_info(3)])
    done = threading.Event()
    manager.send(2, UpdateMetadataRequest(controller_id=2), 8, lambda _: None)
    manager.send(3, UpdateMetadataRequest(controller_id=3), 8, lambda _: done.set())
    assert done.wait(60)
    # Removing does not wait for the connection attempt.
    manager.remove_broker(2)
    manager.send(2, UpdateMetadataRequest(controller_id=4), 8, None)
    blocked.set()
    manager.shutdown()
    assert log == [3]


def test_the_log_tells_how_long_rare_events_took_and_what_of_it_was_zookeeper(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    waited_ns = [7_000_000]

    def take_over() -> None:
        clock.advance(30)
        waited_ns[0] += 12_500_000
        raise ValueError("in the middle")

    manager = ControllerEventManager(clock, lambda *_: None, waited_ns=lambda: waited_ns[0])
    manager.put(Event("Reelect", ControllerState.CONTROLLER_CHANGE, take_over))
    manager.put(Event("Answer", ControllerState.UPDATE_METADATA_RESPONSE, lambda: None))
    with caplog.at_level("INFO", "controller.event_manager"):
        while manager.step() is not None:
            pass
    assert caplog.messages == ["Reelect took 30.0 ms, 12.5 ms of it waiting for ZooKeeper"]


def test_close_does_not_wait_for_ever_for_an_event() -> None:
    """As when ZooKeeper is gone for good while a broker stops."""
    manager = ControllerEventManager(SystemClock(), lambda *_: None)
    manager.start()
    gone, begun = threading.Event(), threading.Event()

    def wait_for_zookeeper() -> None:
        begun.set()
        gone.wait(60)

    manager.put(Event("wait", ControllerState.CONTROLLER_CHANGE, wait_for_zookeeper))
    assert begun.wait(60)
    last: list[bool] = []
    closing = threading.Thread(
        target=lambda: manager.close(
            Event("last", ControllerState.CONTROLLER_SHUTDOWN, lambda: last.append(True)), timeout_ms=200
        ),
        daemon=True,
    )
    closing.start()
    closing.join(60)
    assert not closing.is_alive()
    assert not last
    gone.set()
