"""The controller on a real ZooKeeper: brokers, ISR changes, controlled shutdown, requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from controller.states import PartitionStatus, ReplicaStatus
from controller.zk import paths
from controller.zk.ops import SetData
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
from tests.unit.controller.harness import Harness, broker_info, leaderships, stopped, tp

MakeHarness = Callable[..., Harness]


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
    assert cluster.told(LeaderAndIsrRequest, tp("t-2")) == {}
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
    epochs: Mapping[int, int] = MappingProxyType({}),
) -> AlterPartitionResponse:
    known = cluster.context.leadership[partition]
    data = PartitionDataRequest(
        partition_index=partition.partition,
        leader_epoch=known.leader_epoch if leader_epoch is None else leader_epoch,
        leader_recovery_state=recovery_state,
        partition_epoch=known.partition_epoch if partition_epoch is None else partition_epoch,
    )
    if version >= 3:
        data.new_isr_with_epochs = [
            BrokerState(broker_id=member, broker_epoch=epochs.get(member, -1)) for member in isr
        ]
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

    def code(isr: list[int], **options: Any) -> int:
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


def test_who_was_away_since_the_leader_found_it_in_sync_does_not_join(cluster: Harness) -> None:
    """KIP-903: what it had it may have lost, and a proposal may have waited for the next controller."""
    cluster.create_topic("t", {0: [1, 2]})
    partition = tp("t-0")
    alter(cluster, partition, 1, [1])
    before = cluster.context.brokers[2].epoch
    cluster.kill(2)
    cluster.run_until(lambda: 2 not in cluster.context.brokers, "broker failure")
    cluster.register(2)
    cluster.run_until(lambda: 2 in cluster.context.brokers, "the broker's return")
    now = cluster.context.brokers[2].epoch

    def code(epoch: int) -> int:
        return int(alter(cluster, partition, 1, [1, 2], epochs={2: epoch}).topics[0].partitions[0].error_code)

    assert code(before) == ErrorCode.INELIGIBLE_REPLICA
    assert cluster.leader_isr(partition)[1] == (1,)
    assert code(now) == ErrorCode.NONE
    assert cluster.leader_isr(partition)[1] == (1, 2)


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
