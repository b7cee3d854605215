"""The controller on a real ZooKeeper: topics and partitions come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller.states import PartitionStatus
from controller.zk import paths
from controller.zk.access import ControllerMovedError
from controller.zk.ops import Create, Delete
from controller.zk.payloads import PartitionState
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from network.protocol.messages.stop_replica import StopReplicaRequest
from network.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.unit.controller.harness import Harness, leaderships, metadata, stopped, tp

MakeHarness = Callable[..., Harness]


def test_topic_creation(cluster: Harness) -> None:
    cluster.take()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 3], 2: [3, 1]})
    for number, leader, isr in ((0, 1, (1, 2)), (1, 2, (2, 3)), (2, 3, (3, 1))):
        assert cluster.state(TopicPartition("t", number)) == PartitionState(leader, 0, isr, 1)
    sent = cluster.take()
    # One LeaderAndIsr a replica broker with all its partitions, then one UpdateMetadata a broker; nothing else.
    assert [(type(item.request), item.broker) for item in sent] == [
        (LeaderAndIsrRequest, 1),
        (LeaderAndIsrRequest, 2),
        (LeaderAndIsrRequest, 3),
        (UpdateMetadataRequest, 1),
        (UpdateMetadataRequest, 2),
        (UpdateMetadataRequest, 3),
    ]
    assert [item.version for item in sent] == [7, 7, 7, 8, 8, 8]
    states = leaderships(sent[0])
    assert set(states) == {tp("t-0"), tp("t-2")}
    first = states[tp("t-0")]
    assert (first.leader, first.leader_epoch, first.isr, first.replicas) == (1, 0, [1, 2], [1, 2])
    assert (first.partition_epoch, first.controller_epoch, first.is_new) == (0, 1, True)
    assert sent[0].request.topic_states[0].topic_id == cluster.context.topic_ids["t"]
    assert [leader.broker_id for leader in sent[0].request.live_leaders] == [1, 3]
    assert len(metadata(sent[3])) == 3
    assert cluster.context.partition_state(tp("t-0")) is PartitionStatus.ONLINE


def test_topic_written_by_hand_gets_an_id(cluster: Harness) -> None:
    cluster.zk.session.submit([Create("/brokers/topics/hand", b'{"version":1,"partitions":{"0":[2]}}')])
    cluster.run_until(lambda: tp("hand-0") in cluster.context.leadership, "creation")
    znode = cluster.zk.topic("hand")
    assert znode is not None
    assert znode.topic_id == cluster.context.topic_ids["hand"]
    cluster.settle()
    assert cluster.zk.topic("hand") == znode


def test_topic_on_dead_brokers_waits_for_them(cluster: Harness) -> None:
    cluster.admin.create_topic("t", {0: [7, 8], 1: [7, 1]})
    cluster.run_until(lambda: tp("t-1") in cluster.context.leadership, "creation")
    cluster.settle()
    assert cluster.leader_isr(tp("t-1")) == (1, (1,), 0)
    assert cluster.context.partition_state(tp("t-0")) is PartitionStatus.NEW
    assert cluster.zk.partition_states([tp("t-0")]) == {}
    cluster.register(8)
    cluster.run_until(lambda: tp("t-0") in cluster.context.leadership, "leader")
    assert cluster.leader_isr(tp("t-0")) == (8, (8,), 0)


def test_partitions_added(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [1, 2]})
    cluster.take()
    cluster.admin.add_partitions("t", 3, {1: None, 2: None, 3: None}, [[3, 1], [2, 3]])
    cluster.run_until(lambda: tp("t-2") in cluster.context.leadership, "creation")
    cluster.settle()
    assert cluster.leader_isr(tp("t-1")) == (3, (3, 1), 0)
    for item in cluster.sent(LeaderAndIsrRequest):
        assert tp("t-0") not in leaderships(item)


def test_topic_deletion(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [1, 2], 1: [2, 3]}, retention_ms="1")
    cluster.create_topic("kept", {0: [1, 2]})
    cluster.take()
    cluster.admin.delete_topic("t")
    cluster.run_until(lambda: "t" not in cluster.context.topics, "deletion")
    assert cluster.zk.topic_names() == {"kept"}
    assert cluster.zk.config_entities("topics") == ["kept"]
    assert cluster.zk.topics_to_delete() == set()
    sent = cluster.take()
    goodbye = next(item for item in sent if isinstance(item.request, UpdateMetadataRequest))
    state = metadata(goodbye)[tp("t-0")]
    assert (state.leader, state.leader_epoch, state.zk_version) == (-2, 0, 0)
    stops = [stopped(item) for item in sent if item.broker == 2 and isinstance(item.request, StopReplicaRequest)]
    assert stops == [
        {tp("t-0"): (-2, False), tp("t-1"): (-2, False)},
        {tp("t-0"): (-2, True), tp("t-1"): (-2, True)},
    ]
    assert not [item for item in sent if isinstance(item.request, LeaderAndIsrRequest)]
    # The name can be used again.
    cluster.create_topic("t", {0: [3]})
    assert cluster.leader_isr(tp("t-0")) == (3, (3,), 0)


@pytest.mark.parametrize("step", ["delete_topic_config", "delete_topic_tree", "delete_topic_markers"])
def test_what_a_controller_has_begun_to_delete_goes_with_the_next(
    cluster: Harness, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stopped."""
    cluster.create_topic("t", {0: [1, 2]}, retention_ms="1")
    done, epoch = getattr(cluster.zk, step), cluster.controller.epoch

    def stop_after(*arguments: Any) -> None:
        done(*arguments)
        monkeypatch.setattr(cluster.zk, step, done)
        cluster.zk.session.submit([Delete(paths.CONTROLLER)])
        raise ControllerMovedError("another one comes")

    monkeypatch.setattr(cluster.zk, step, stop_after)
    cluster.admin.delete_topic("t")
    cluster.run_until(lambda: cluster.controller.epoch > epoch and cluster.controller.is_active, "the next controller")
    cluster.run_until(lambda: cluster.zk.topics_to_delete() == set(), "the end of the deletion")
    assert cluster.zk.topic_names() == set()
    assert cluster.zk.config_entities("topics") == []


def test_deletion_waits_for_a_dead_replica(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [1, 2], 1: [2, 3]})
    cluster.kill(3)
    cluster.run_until(lambda: 3 not in cluster.context.brokers, "broker failure")
    cluster.admin.delete_topic("t")
    cluster.run_until(lambda: "t" in cluster.context.topics_ineligible, "waiting")
    cluster.settle()
    assert cluster.zk.topics_to_delete() == {"t"}
    assert cluster.zk.topic_names() == {"t"}
    cluster.register(3)
    cluster.run_until(lambda: "t" not in cluster.context.topics, "deletion")
    assert cluster.zk.topic_names() == set()


def test_deletion_is_retried_after_an_error(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [1, 2]})
    cluster.channels.errors[(2, tp("t-0"))] = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.admin.delete_topic("t")
    cluster.run_until(lambda: "t" in cluster.context.topics_ineligible, "failure")
    cluster.settle()
    assert cluster.zk.topics_to_delete() == {"t"}
    cluster.channels.errors.clear()
    cluster.kill(2)
    cluster.run_until(lambda: 2 not in cluster.context.brokers, "broker failure")
    cluster.register(2)
    cluster.run_until(lambda: "t" not in cluster.context.topics, "deletion")


def test_deletion_of_unknown_topics_and_with_deletion_disabled(make: MakeHarness) -> None:
    harness = make(delete_topic_enable=False)
    harness.start()
    harness.create_topic("t", {0: [1]})
    harness.zk.create_delete_topic("t")
    harness.zk.create_delete_topic("unknown")
    harness.run_until(lambda: harness.zk.topics_to_delete() == set(), "removal of the requests")
    assert harness.zk.topic_names() == {"t"}


def test_partitions_added_to_a_topic_being_deleted_are_taken_back(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [1, 2]})
    cluster.channels.answer = False
    cluster.admin.delete_topic("t")
    cluster.run_until(lambda: "t" in cluster.context.topics_deletion_started, "deletion")
    cluster.admin.add_partitions("t", 2, {1: None, 2: None}, [[1, 2]])

    def restored() -> bool:
        znode = cluster.zk.topic("t")
        return znode is not None and set(znode.assignment) == {0}

    cluster.run_until(restored, "restored assignment")
    cluster.channels.answer_all()
    cluster.channels.answer = True
    cluster.run_until(lambda: "t" not in cluster.context.topics, "deletion")


def test_topic_removed_by_hand_is_forgotten(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [1, 2]})
    cluster.zk.delete_topic_tree("t", -1)
    cluster.run_until(lambda: "t" not in cluster.context.topics, "forgetting")
    assert tp("t-0") not in cluster.context.leadership
    cluster.create_topic("t", {0: [2]})
    assert cluster.leader_isr(tp("t-0")) == (2, (2,), 0)
