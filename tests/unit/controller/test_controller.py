"""The controller on a real ZooKeeper: election, topics, brokers, ISR changes, controlled shutdown, fencing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from controller.states import PartitionStatus, ReplicaStatus
from controller.zk import paths
from controller.zk.ops import Create, Delete, SetData
from controller.zk.payloads import PartitionState, ReplicaAssignment, TopicZnode, encode_broker
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from network.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionDataRequest,
    TopicDataRequest,
)
from network.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from network.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from network.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from network.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from network.protocol.messages.stop_replica import StopReplicaRequest
from network.protocol.messages.update_features import UpdateFeaturesRequest
from network.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.unit.controller.harness import Harness, broker_info, leaderships, metadata, stopped, tp
from tests.unit.controller.test_session import expire

MakeHarness = Callable[..., Harness]


# -- election ----------------------------------------------------------------------------------------------------------


def test_first_election(cluster: Harness) -> None:
    assert cluster.controller.epoch == 1
    znode = cluster.zk.read(paths.CONTROLLER)
    assert znode is not None
    assert json.loads(znode[0] or b"") == {
        "version": 2,
        "brokerid": 1,
        "timestamp": str(cluster.clock.wall_ms()),
        "kraftControllerEpoch": -1,
    }
    assert znode[1].ephemeral_owner == cluster.zk.session.session_id
    feature = cluster.zk.read(paths.FEATURE)
    assert feature is not None
    assert json.loads(feature[0] or b"") == {"features": {}, "version": 2, "status": 1}
    # Nothing but the broker list goes out, to everyone.
    first = cluster.take()
    assert {(item.broker, type(item.request)) for item in first} == {
        (broker, UpdateMetadataRequest) for broker in (1, 2, 3)
    }
    request = first[0].request
    assert [broker.id for broker in request.live_brokers] == [1, 2, 3]
    assert request.topic_states == []
    assert request.controller_epoch == 1
    assert request.broker_epoch == cluster.context.brokers[1].epoch


def test_old_ibp_disables_features(make: MakeHarness) -> None:
    harness = make("2.6")
    harness.start()
    feature = harness.zk.read(paths.FEATURE)
    assert feature is not None
    assert json.loads(feature[0] or b"") == {"features": {}, "version": 1, "status": 0}


def test_the_other_candidate_waits_and_takes_over(make: MakeHarness) -> None:
    one, two = make(broker_id=1), make(broker_id=2)
    one.start()
    two.register(2)
    two.controller.startup(own_thread=False)
    two.settle()
    assert not two.controller.is_active
    assert two.controller.active_controller_id == 1
    one.controller.shutdown()
    one.zk.close()
    two.run_until(lambda: two.controller.is_active, "takeover")
    assert two.controller.epoch == 2
    assert not one.controller.is_active


def test_controller_znode_deleted_by_hand(make: MakeHarness) -> None:
    one, two = make(broker_id=1), make(broker_id=2)
    one.start()
    two.register(2)
    two.controller.startup(own_thread=False)
    two.settle()
    one.zk.session.submit([Delete(paths.CONTROLLER)])
    two.run_until(lambda: two.controller.is_active, "takeover")
    one.settle()
    assert not one.controller.is_active
    assert one.controller.active_controller_id == 2
    assert one.controller.epoch == 0
    assert one.channels.brokers == {}


@pytest.mark.parametrize("content", [b'{"version":2,"brokerid":9,"timestamp":"1"}', b"nonsense"], ids=["other", "bad"])
def test_controller_znode_overwritten_by_hand(cluster: Harness, content: bytes) -> None:
    """The one that made it resigns and removes it: whoever is named was not elected. Then there is an election."""
    cluster.create_topic("t", {0: [2, 3]})
    epoch = cluster.controller.epoch
    cluster.zk.session.submit([SetData(paths.CONTROLLER, content)])
    cluster.run_until(lambda: cluster.controller.epoch != epoch and cluster.controller.is_active, "reelection")
    assert cluster.controller.epoch == epoch + 1
    cluster.kill(2)
    cluster.run_until(lambda: cluster.state(tp("t-0")).leader == 3, "work of the new term")


def test_the_broker_that_somebody_wrote_into_the_controller_znode(make: MakeHarness) -> None:
    """It does not believe to be controller before it was elected."""
    one, two = make(broker_id=1), make(broker_id=2)
    one.start()
    two.register(2)
    two.controller.startup(own_thread=False)
    two.settle()
    one.zk.session.submit([SetData(paths.CONTROLLER, b'{"version":2,"brokerid":2,"timestamp":"1"}')])
    two.run_until(lambda: two.controller.active_controller_id == 2, "notice")
    assert not two.controller.is_active
    one.run_until(lambda: not one.controller.is_active, "resignation")
    two.run_until(lambda: two.controller.is_active, "election")
    assert two.controller.epoch == 2
    one.settle()
    assert not one.controller.is_active
    assert one.controller.active_controller_id == 2


def test_a_zombie_writes_nothing_and_resigns(cluster: Harness) -> None:
    """Its session is alive, but another controller has won: the fence stops the first write."""
    cluster.create_topic("t", {0: [2, 3]})
    before = cluster.state(tp("t-0"))
    epoch = cluster.zk.controller_epoch()
    assert epoch is not None
    cluster.zk.session.submit([SetData(paths.CONTROLLER_EPOCH, str(epoch[0] + 1).encode(), epoch[1])])
    cluster.take()
    cluster.kill(2)
    cluster.run_until(lambda: 2 not in cluster.context.brokers, "broker failure")
    cluster.settle()
    assert cluster.state(tp("t-0")) == before
    assert not cluster.sent(LeaderAndIsrRequest)
    # /controller still names it, so it is asked to give way only by the znode: delete it as the new one would.
    cluster.zk.session.submit([Delete(paths.CONTROLLER)])
    cluster.run_until(lambda: cluster.controller.epoch == epoch[0] + 2, "reelection")


def test_failed_failover_gives_the_controllership_up(make: MakeHarness) -> None:
    harness = make()
    harness.register(1)
    harness.zk.create_recursive("/brokers/topics/broken", b'{"partitions":{"0":["x"]}}')
    harness.controller.startup(own_thread=False)
    harness.controller.step()
    assert not harness.controller.is_active
    assert harness.zk.controller() is None
    # Once the cause is gone it becomes controller (the deletion of /controller is an election trigger).
    harness.zk.session.submit([Delete("/brokers/topics/broken")])
    harness.run_until(lambda: harness.controller.is_active, "election")


def test_session_expiry(zookeeper: str, cluster: Harness, make: MakeHarness) -> None:
    cluster.create_topic("t", {0: [1, 2]})
    old_epoch = cluster.context.brokers[1].epoch
    answers: list[ErrorCode] = []
    # Queued when the session ends: preempted, and answered.
    cluster.controller.alter_partition_reassignments(
        AlterPartitionReassignmentsRequest(), lambda response: answers.append(ErrorCode.of(response.error_code))
    )
    expire(zookeeper, cluster.zk)
    cluster.run_until(lambda: bool(cluster.epochs), "new registration")
    cluster.run_until(lambda: cluster.controller.is_active, "reelection")
    cluster.settle()
    assert answers in ([ErrorCode.NOT_CONTROLLER], [ErrorCode.NONE])
    assert cluster.epochs[0] > old_epoch
    assert cluster.controller.epoch == 2
    assert cluster.context.brokers[1].epoch == cluster.epochs[0]


# -- topics ------------------------------------------------------------------------------------------------------------


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


# -- brokers -----------------------------------------------------------------------------------------------------------


def test_broker_death_and_return(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [2, 3, 1], 1: [1, 2], 2: [3, 1], 3: [2]})
    cluster.take()
    cluster.kill(2)
    cluster.run_until(lambda: 2 not in cluster.context.brokers, "broker failure")
    # Elected first (epoch 1, ISR without the dead), then nothing left to shrink there.
    assert cluster.leader_isr(tp("t-0")) == (3, (3, 1), 1)
    assert cluster.leader_isr(tp("t-1")) == (1, (1,), 1)
    assert cluster.leader_isr(tp("t-2")) == (3, (3, 1), 0)
    # The only replica: leader -1, the last ISR member stays.
    assert cluster.leader_isr(tp("t-3")) == (-1, (2,), 1)
    assert cluster.context.offline_partition_count == 1
    assert cluster.context.partition_state(tp("t-3")) is PartitionStatus.OFFLINE
    assert tp("t-2") not in cluster.told(LeaderAndIsrRequest, tp("t-2"))
    assert cluster.told(UpdateMetadataRequest, tp("t-0"))[1].offline_replicas == [2]
    assert {item.broker for item in cluster.channels.sent} == {1, 3}
    cluster.take()
    cluster.register(2)
    cluster.run_until(lambda: 2 in cluster.context.brokers, "broker arrival")
    cluster.settle()
    assert cluster.leader_isr(tp("t-3")) == (2, (2,), 2)
    assert cluster.context.offline_partition_count == 0
    to_two = [item for item in cluster.take() if item.broker == 2]
    # Metadata of everything first: it introduces the leaders that the LeaderAndIsr names.
    assert [type(item.request) for item in to_two[:2]] == [UpdateMetadataRequest, LeaderAndIsrRequest]
    assert len(to_two[0].request.live_brokers) == 3
    assert set(leaderships(to_two[1])) == {tp("t-0"), tp("t-1"), tp("t-3")}
    assert all(item.request.broker_epoch == cluster.context.brokers[2].epoch for item in to_two)


def test_follower_death_shrinks_and_tells_the_leader(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [1, 2, 3]})
    cluster.take()
    cluster.kill(3)
    cluster.run_until(lambda: 3 not in cluster.context.brokers, "broker failure")
    assert cluster.leader_isr(tp("t-0")) == (1, (1, 2), 1)
    told = cluster.told(LeaderAndIsrRequest, tp("t-0"))
    assert {broker: (state.leader_epoch, state.isr, state.is_new) for broker, state in told.items()} == {
        1: (1, [1, 2], False),
        2: (1, [1, 2], False),
    }


def test_bounced_broker_is_a_failure_and_a_start(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [2, 1]})
    old = cluster.context.brokers[2].epoch
    cluster.take()
    # Both changes before the controller looks: it sees the same id with another czxid.
    cluster.kill(2)
    new = cluster.register(2)
    cluster.run_until(
        lambda: cluster.context.brokers.get(2) is not None and cluster.context.brokers[2].epoch == new, "bounce"
    )
    cluster.settle()
    assert new > old
    assert cluster.leader_isr(tp("t-0")) == (1, (1,), 1)
    assert all(item.request.broker_epoch == new for item in cluster.channels.sent if item.broker == 2)
    assert cluster.context.replica_state(((tp("t-0")), 2)) is ReplicaStatus.ONLINE


def test_a_broker_without_partitions_leaves(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [1]})
    cluster.take()
    cluster.kill(3)
    cluster.run_until(lambda: 3 not in cluster.context.brokers, "broker failure")
    sent = cluster.take()
    assert {(item.broker, type(item.request)) for item in sent} == {
        (1, UpdateMetadataRequest),
        (2, UpdateMetadataRequest),
    }
    assert [broker.id for broker in sent[0].request.live_brokers] == [1, 2]


def test_changed_endpoints_are_told(cluster: Harness) -> None:
    cluster.take()
    moved = encode_broker(broker_info(7), 5, 1)
    cluster.zk.session.submit([SetData(paths.broker_id(2), moved)])
    cluster.run_until(lambda: cluster.context.brokers[2].endpoints[0].port == 9007, "modification")
    assert {(item.broker, type(item.request)) for item in cluster.take()} == {
        (broker, UpdateMetadataRequest) for broker in (1, 2, 3)
    }


def test_unclean_election_only_where_allowed(cluster: Harness) -> None:
    cluster.create_topic("safe", {0: [2, 3]})
    cluster.create_topic("loose", {0: [2, 3]}, unclean_leader_election_enable="true")
    cluster.kill(3)
    cluster.run_until(lambda: 3 not in cluster.context.brokers, "broker failure")
    cluster.kill(2)
    cluster.run_until(lambda: 2 not in cluster.context.brokers, "broker failure")
    assert cluster.leader_isr(tp("safe-0")) == (-1, (2,), 2)
    cluster.register(3)
    cluster.run_until(lambda: 3 in cluster.context.brokers, "broker arrival")
    cluster.settle()
    assert cluster.leader_isr(tp("safe-0")) == (-1, (2,), 2)
    state = cluster.state(tp("loose-0"))
    assert (state.leader, state.isr, state.recovery_state) == (3, (3,), 1)
    # Turned on later for the topic: elected at once.
    cluster.admin.change_configs("topics/safe", {"unclean.leader.election.enable": "true"})
    cluster.controller.enable_topic_unclean_leader_election("safe")
    cluster.settle()
    assert cluster.leader_isr(tp("safe-0")) == (3, (3,), 3)


def test_controlled_shutdown(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [2, 3], 1: [1, 2], 2: [2]})
    cluster.take()
    answers: list[tuple[ErrorCode, list[TopicPartition]]] = []

    def shut(broker: int, epoch: int) -> tuple[ErrorCode, list[TopicPartition]]:
        answers.clear()
        cluster.controller.controlled_shutdown(
            ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch),
            lambda response: answers.append(
                (
                    ErrorCode.of(response.error_code),
                    [TopicPartition(item.topic_name, item.partition_index) for item in response.remaining_partitions],
                )
            ),
        )
        cluster.settle()
        return answers[0]

    epoch = cluster.context.brokers[2].epoch
    assert shut(2, epoch - 1)[0] is ErrorCode.STALE_BROKER_EPOCH
    assert shut(9, -1)[0] is ErrorCode.BROKER_NOT_AVAILABLE
    assert cluster.context.shutting_down == set()
    assert shut(2, epoch) == (ErrorCode.NONE, [])
    assert cluster.leader_isr(tp("t-0")) == (3, (3,), 1)
    assert cluster.leader_isr(tp("t-1")) == (1, (1,), 1)
    assert cluster.leader_isr(tp("t-2")) == (2, (2,), 0)
    assert set(cluster.told(LeaderAndIsrRequest, tp("t-0"))) == {2, 3}
    assert next(stopped(item) for item in cluster.sent(StopReplicaRequest, 2)) == {tp("t-1"): (0, False)}
    # A broker that shuts down cannot come back into an ISR, or be elected.
    assert alter(cluster, tp("t-0"), 3, [3, 2]).topics[0].partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    # The leader of the last live ISR member keeps what it leads.
    cluster.kill(3)
    cluster.run_until(lambda: 3 not in cluster.context.brokers, "broker failure")
    assert cluster.leader_isr(tp("t-0"))[:2] == (-1, (3,))
    cluster.kill(2)
    cluster.run_until(lambda: 2 not in cluster.context.brokers, "broker failure")
    assert cluster.context.shutting_down == set()


def test_log_dir_failure(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [2, 3], 1: [2, 1]})
    cluster.channels.errors[(2, tp("t-0"))] = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.take()
    cluster.zk.propagate_log_dir_failure(2)
    cluster.run_until(lambda: bool(cluster.context.offline_dirs.get(2)), "probe")
    cluster.settle()
    assert cluster.leader_isr(tp("t-0")) == (3, (3,), 1)
    assert cluster.leader_isr(tp("t-1")) == (2, (2, 1), 0)
    assert cluster.zk.log_dir_event_names() == []
    assert cluster.told(UpdateMetadataRequest, tp("t-0"))[1].offline_replicas == [2]
    # The broker is restarted with a good disk.
    cluster.channels.errors.clear()
    cluster.kill(2)
    cluster.register(2)
    cluster.run_until(lambda: not cluster.context.offline_dirs.get(2), "restart")
    cluster.settle()
    assert cluster.context.is_replica_online(2, tp("t-0"))


# -- ISR changes -------------------------------------------------------------------------------------------------------


def alter(
    cluster: Harness,
    partition: TopicPartition,
    broker: int,
    isr: list[int],
    *,
    version: int = 3,
    leader_epoch: int | None = None,
    partition_epoch: int | None = None,
    broker_epoch: int | None = None,
    recovery_state: int = 0,
) -> AlterPartitionResponse:
    known = cluster.context.leadership[partition]
    data = PartitionDataRequest(
        partition_index=partition.partition,
        leader_epoch=known.leader_epoch if leader_epoch is None else leader_epoch,
        leader_recovery_state=recovery_state,
        partition_epoch=known.partition_epoch if partition_epoch is None else partition_epoch,
    )
    if version >= 3:
        data.new_isr_with_epochs = [BrokerState(broker_id=member) for member in isr]
    else:
        data.new_isr = isr
    request = AlterPartitionRequest(
        broker_id=broker,
        broker_epoch=cluster.context.brokers[broker].epoch if broker_epoch is None else broker_epoch,
        topics=[
            TopicDataRequest(
                topic_name=partition.topic if version < 2 else "",
                topic_id=cluster.context.topic_ids[partition.topic] if version >= 2 else bytes(16),
                partitions=[data],
            )
        ],
    )
    answers: list[AlterPartitionResponse] = []
    cluster.controller.alter_partition(request, version, answers.append)
    cluster.run_until(lambda: bool(answers), "answer")
    answers[0].encode(version)
    return answers[0]


def test_alter_partition(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [1, 2, 3]})
    cluster.take()
    answer = alter(cluster, tp("t-0"), 1, [1, 2]).topics[0].partitions[0]
    assert (answer.error_code, answer.isr, answer.partition_epoch, answer.leader_epoch) == (0, [1, 2], 1, 0)
    assert cluster.leader_isr(tp("t-0")) == (1, (1, 2), 0)
    # Everyone hears by UpdateMetadata; there is no LeaderAndIsr.
    assert set(cluster.told(UpdateMetadataRequest, tp("t-0"))) == {1, 2, 3}
    assert not cluster.sent(LeaderAndIsrRequest)
    # The same request again, its answer was lost: success with the newer partition epoch, nothing written.
    again = alter(cluster, tp("t-0"), 1, [1, 2], partition_epoch=0).topics[0].partitions[0]
    assert (again.error_code, again.partition_epoch) == (0, 1)
    assert cluster.state(tp("t-0")).partition_epoch == 1


def test_alter_partition_refusals(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [1, 2, 3]})
    partition = tp("t-0")
    alter(cluster, partition, 1, [1, 2])

    def code(isr: list[int], **options: int) -> int:
        return int(alter(cluster, partition, 1, isr, **options).topics[0].partitions[0].error_code)

    assert code([1], partition_epoch=9) == ErrorCode.NOT_CONTROLLER
    assert code([1], leader_epoch=9) == ErrorCode.NOT_CONTROLLER
    assert code([1], leader_epoch=-1) == ErrorCode.FENCED_LEADER_EPOCH
    assert code([1], partition_epoch=0) == ErrorCode.INVALID_UPDATE_VERSION
    # The order of the ISR counts, so this is no repeat.
    assert code([2, 1], partition_epoch=0) == ErrorCode.INVALID_UPDATE_VERSION
    assert code([1, 2, 9]) == ErrorCode.INELIGIBLE_REPLICA
    assert code([1, 2, 9], version=1) == ErrorCode.OPERATION_NOT_ATTEMPTED
    assert code([1], recovery_state=1) == ErrorCode.INVALID_REQUEST
    assert cluster.leader_isr(partition) == (1, (1, 2), 0)
    # Somebody else wrote the state: the conditional write fails.
    cluster.zk.set_partition_states({partition: cluster.state(partition)}, cluster.context.epoch_zk_version)
    assert code([1]) == ErrorCode.INVALID_UPDATE_VERSION

    epoch = cluster.context.brokers[1].epoch
    assert alter(cluster, partition, 1, [1], broker_epoch=epoch + 1).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert alter(cluster, partition, 1, [1], broker_epoch=-1).error_code == ErrorCode.STALE_BROKER_EPOCH
    cluster.context.topic_ids["ghost"] = bytes(range(16))
    cluster.context.leadership[tp("ghost-0")] = PartitionState(1, 0, (1,), 1)
    assert alter(cluster, tp("ghost-0"), 1, [1]).topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_isr_change_notifications_of_old_leaders(make: MakeHarness) -> None:
    harness = make("2.6")
    harness.start(2)
    harness.create_topic("t", {0: [1, 2]})
    assert harness.sent(LeaderAndIsrRequest)[0].version == 4
    assert harness.sent(UpdateMetadataRequest)[0].version == 6
    harness.take()
    harness.zk.set_partition_state_as_leader(tp("t-0"), PartitionState(1, 0, (1,), 1, partition_epoch=0))
    harness.zk.propagate_isr_changes([tp("t-0"), tp("gone-0")])
    harness.run_until(lambda: harness.context.leadership[tp("t-0")].isr == (1,), "notification")
    assert harness.told(UpdateMetadataRequest, tp("t-0"))[2].isr == [1]
    assert harness.zk.isr_change_names() == []


# -- requests to a broker that is not controller, producer ids ---------------------------------------------------------


def test_requests_to_a_broker_that_is_not_controller(make: MakeHarness) -> None:
    one, two = make(broker_id=1), make(broker_id=2)
    one.start()
    two.register(2)
    two.controller.startup(own_thread=False)
    two.settle()
    codes: list[object] = []

    def answered(response: Any) -> None:
        codes.append(response.error_code)

    two.controller.alter_partition(AlterPartitionRequest(), 3, answered)
    two.controller.controlled_shutdown(ControlledShutdownRequest(broker_id=1), answered)
    two.controller.alter_partition_reassignments(AlterPartitionReassignmentsRequest(), answered)
    two.controller.list_partition_reassignments(ListPartitionReassignmentsRequest(), answered)
    two.controller.allocate_producer_ids(AllocateProducerIdsRequest(broker_id=1, broker_epoch=1), answered)
    two.controller.update_features(UpdateFeaturesRequest(), 1, answered)
    two.settle()
    assert codes == [
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.STALE_CONTROLLER_EPOCH,
        *[ErrorCode.NOT_CONTROLLER] * 4,
    ]
    # No herd: a broker that is not controller watches only /controller.
    handlers = two.zk.session._handlers  # type: ignore[attr-defined]
    assert set(handlers._data) == {paths.CONTROLLER}
    assert not handlers._children


def test_producer_id_blocks(cluster: Harness) -> None:
    answers: list[AllocateProducerIdsResponse] = []

    def ask(broker: int, epoch: int) -> AllocateProducerIdsResponse:
        cluster.controller.allocate_producer_ids(
            AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch), answers.append
        )
        cluster.settle()
        return answers[-1]

    epoch = cluster.context.brokers[2].epoch
    assert ask(2, epoch) == AllocateProducerIdsResponse(producer_id_start=0, producer_id_len=1000)
    assert ask(2, epoch) == AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=1000)
    assert ask(2, 1).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert ask(9, 1).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_znode_without_readable_state_does_not_stop_the_others(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [2, 1], 1: [2, 1]})
    cluster.zk.session.submit([SetData(paths.partition_state(tp("t-0")), b"garbage")])
    cluster.kill(2)
    cluster.run_until(lambda: 2 not in cluster.context.brokers, "broker failure")
    assert cluster.state(tp("t-1")).leader == 1


def test_a_newer_controllers_state_is_left_alone(cluster: Harness) -> None:
    cluster.create_topic("t", {0: [2, 1]})
    newer = PartitionState(2, 0, (2, 1), 99, partition_epoch=0)
    cluster.zk.set_partition_states({tp("t-0"): newer}, cluster.context.epoch_zk_version)
    cluster.kill(2)
    cluster.run_until(lambda: 2 not in cluster.context.brokers, "broker failure")
    assert cluster.state(tp("t-0")).leader == 2


def test_unknown_topics_in_the_assignment_are_kept(cluster: Harness) -> None:
    """Partitions that disappear from a topic's znode are ignored, as Kafka does."""
    cluster.create_topic("t", {0: [1], 1: [2]})
    cluster.zk.set_topic("t", TopicZnode(cluster.context.topic_ids["t"], {0: ReplicaAssignment((1,))}))
    cluster.settle()
    assert cluster.context.has_partition(tp("t-1"))
