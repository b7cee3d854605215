"""A controller on a real ZooKeeper whose brokers are recorded, not run: their answers are given by the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kazoo.protocol.states import Callback

from broker.config.versions import MetadataVersion
from controller.config import ControllerConfig
from controller.controller import Controller
from controller.zk.admin import AdminZkClient
from controller.zk.client import ZkClient
from controller.zk.payloads import BrokerInfo, EndPoint, PartitionState
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from network.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from network.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from network.protocol.uuids import new_uuid
from timer.chance import SystemChance
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler

MakeClient = Callable[..., ZkClient]


def tp(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))


def broker_info(broker_id: int, rack: str | None = None) -> BrokerInfo:
    return BrokerInfo(broker_id, (EndPoint("PLAINTEXT", "127.0.0.1", 9000 + broker_id, "PLAINTEXT"),), rack)


@dataclass
class Sent:
    """One request that the controller sent."""

    broker: int
    request: Any
    version: int
    callback: Callable[[Any], None] | None

    def __post_init__(self) -> None:
        # What cannot be encoded in this version would fail on the wire.
        self.request.encode(self.version)


@dataclass
class RecordingChannels:
    """Records what is sent. `answer` completes StopReplica and LeaderAndIsr requests as healthy brokers do."""

    sent: list[Sent] = field(default_factory=list)
    brokers: dict[int, BrokerInfo] = field(default_factory=dict)
    answer: bool = True
    # (broker, partition) -> the error that the broker answers with
    errors: dict[tuple[int, TopicPartition], ErrorCode] = field(default_factory=dict)
    unanswered: list[Sent] = field(default_factory=list)

    def start(self, brokers: Iterable[BrokerInfo]) -> None:
        for broker in brokers:
            self.add_broker(broker)

    def add_broker(self, broker: BrokerInfo) -> None:
        self.brokers[broker.id] = broker

    def remove_broker(self, broker_id: int) -> None:
        self.brokers.pop(broker_id, None)

    def send(self, broker_id: int, request: Any, version: int, callback: Callable[[Any], None] | None) -> None:
        if broker_id not in self.brokers:
            return
        sent = Sent(broker_id, request, version, callback)
        self.sent.append(sent)
        if self.answer:
            self._answer(sent)
        else:
            self.unanswered.append(sent)

    def answer_all(self) -> None:
        waiting, self.unanswered = self.unanswered, []
        for sent in waiting:
            self._answer(sent)

    def shutdown(self) -> None:
        self.brokers.clear()

    def _answer(self, sent: Sent) -> None:
        if sent.callback is None:
            return
        if isinstance(sent.request, UpdateMetadataRequest):
            sent.callback(UpdateMetadataResponse())
        elif isinstance(sent.request, StopReplicaRequest):
            sent.callback(
                StopReplicaResponse(
                    partition_errors=[
                        StopReplicaPartitionError(
                            topic_name=item.topic, partition_index=item.partition, error_code=self._error(sent, item)
                        )
                        for item in stopped(sent)
                    ]
                )
            )
        else:
            sent.callback(self._leader_and_isr(sent))

    def _leader_and_isr(self, sent: Sent) -> LeaderAndIsrResponse:
        response = LeaderAndIsrResponse()
        for topic in sent.request.topic_states:
            errors = [
                LeaderAndIsrPartitionError(
                    topic_name=topic.topic_name,
                    partition_index=state.partition_index,
                    error_code=self._error(sent, TopicPartition(topic.topic_name, state.partition_index)),
                )
                for state in topic.partition_states
            ]
            if sent.version >= 5:
                response.topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
            else:
                response.partition_errors.extend(errors)
        return response

    def _error(self, sent: Sent, partition: TopicPartition) -> ErrorCode:
        return self.errors.get((sent.broker, partition), ErrorCode.NONE)


def stopped(sent: Sent) -> dict[TopicPartition, tuple[int, bool]]:
    """Partitions of a StopReplica request with leader epoch and delete flag."""
    return {
        TopicPartition(topic.topic_name, state.partition_index): (state.leader_epoch, state.delete_partition)
        for topic in sent.request.topic_states
        for state in topic.partition_states
    }


def leaderships(sent: Sent) -> dict[TopicPartition, LeaderAndIsrPartitionState]:
    return {
        TopicPartition(topic.topic_name, state.partition_index): state
        for topic in sent.request.topic_states
        for state in topic.partition_states
    }


def metadata(sent: Sent) -> dict[TopicPartition, UpdateMetadataPartitionState]:
    return {
        TopicPartition(topic.topic_name, state.partition_index): state
        for topic in sent.request.topic_states
        for state in topic.partition_states
    }


class Harness:
    """One controller candidate (broker 1 unless told otherwise) and sessions that play the other brokers."""

    def __init__(self, make_client: MakeClient, version: str = "3.9", broker_id: int = 1, **options: Any) -> None:
        self.make_client = make_client
        self.clock = ManualClock()
        self.chance = SystemChance()
        self.scheduler = ManualScheduler(self.clock)
        self.scheduler.startup()
        self.channels = RecordingChannels()
        self.zk = make_client()
        self.zk.create_startup_paths()
        self.config = ControllerConfig(broker_id, MetadataVersion(version), **options)
        self.admin = AdminZkClient(self.zk, chance=self.chance, use_topic_ids=self.config.uses_topic_ids)
        self.sessions: dict[int, ZkClient] = {broker_id: self.zk}
        self.epochs: list[int] = []
        self.info = broker_info(broker_id)
        self.controller = Controller(
            self.info,
            self.zk,
            self.channels,
            self.clock,
            self.scheduler,
            self.config,
            chance=self.chance,
            on_new_broker_epoch=self.epochs.append,
        )

    @property
    def context(self) -> Any:
        return self.controller.context

    def start(self, *other_brokers: int) -> None:
        """Register the brokers and become controller."""
        self.register(self.config.broker_id)
        for broker_id in other_brokers:
            self.register(broker_id)
        self.controller.startup(own_thread=False)
        self.run_until(lambda: self.controller.is_active, "election")
        self.settle()

    def register(self, broker_id: int) -> int:
        """A broker arrives with a session of its own; returns its epoch."""
        client = self.sessions.setdefault(broker_id, self.zk)
        if client is self.zk and broker_id != self.config.broker_id:
            client = self.sessions[broker_id] = self.make_client()
        return client.register_broker(broker_info(broker_id), 5, 1000)

    def kill(self, broker_id: int) -> None:
        """A broker's session ends."""
        self.sessions.pop(broker_id).close()

    def run_until(self, condition: Callable[[], bool], what: str) -> None:
        """Process events until `condition` holds."""
        deadline = time.monotonic() + 60
        while not condition():
            if self.controller.step() is None:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{what} did not happen; sent: {self.channels.sent[-6:]}")
                time.sleep(0.002)

    def settle(self) -> None:
        """Process what is queued, and what watches are about to queue."""
        busy = True
        while busy:
            # An answer from the server after the watch event of an earlier write: events come first on a session.
            self.zk.exists("/")
            self._await_watches()
            busy = False
            while self.controller.step() is not None:
                busy = True

    def _await_watches(self) -> None:
        """Until the watch thread has called the handlers of all events that have come."""
        called = threading.Event()
        self.zk.session._handle._threads.dispatch_callback(Callback("settle", called.set, ()))  # type: ignore[attr-defined]
        assert called.wait(60), "the watch thread is stuck"

    def take(self) -> list[Sent]:
        sent = list(self.channels.sent)
        self.channels.sent.clear()
        return sent

    def sent(self, kind: type, broker: int | None = None) -> list[Sent]:
        return [item for item in self.channels.sent if isinstance(item.request, kind) and broker in (None, item.broker)]

    def told(self, kind: type, partition: TopicPartition) -> dict[int, Any]:
        """The last state of a partition that each broker was told by requests of `kind`."""
        found: dict[int, Any] = {}
        read = leaderships if kind is LeaderAndIsrRequest else metadata
        for item in self.sent(kind):
            if partition in read(item):
                found[item.broker] = read(item)[partition]
        return found

    def create_topic(self, topic: str, assignment: dict[int, list[int]], **config: str) -> None:
        """Write the znodes of a topic, also one that the admin client would refuse, and wait for the controller."""
        self.zk.set_config(f"topics/{topic}", {name.replace("_", "."): value for name, value in config.items()})
        self.zk.create_topic(topic, new_uuid(self.chance) if self.config.uses_topic_ids else None, assignment)
        wanted = [TopicPartition(topic, number) for number in assignment]
        self.run_until(lambda: all(item in self.context.leadership for item in wanted), f"creation of {topic}")
        self.settle()

    def state(self, partition: TopicPartition) -> PartitionState:
        return self.zk.partition_states([partition])[partition]

    def leader_isr(self, partition: TopicPartition) -> tuple[int, tuple[int, ...], int]:
        state = self.state(partition)
        known = self.context.leadership.get(partition)
        assert known is None or known == state, f"memory {known} and ZooKeeper {state} differ"
        return state.leader, state.isr, state.leader_epoch
