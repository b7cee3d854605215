"""The controller on a real ZooKeeper: who is it, and what the others and those that were it do."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from controller.registration import RETRY_MS
from controller.zk import paths
from controller.zk.ops import Delete, SetData
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from network.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from network.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.unit.controller.harness import Harness, broker_info, tp
from tests.unit.controller.test_session import expire

pytestmark = pytest.mark.both_zookeepers

MakeHarness = Callable[..., Harness]


def rivals(make: MakeHarness) -> tuple[Harness, Harness]:
    """The controller, broker 1, and broker 2 that would take over."""
    one, two = make(broker_id=1), make(broker_id=2)
    one.start()
    two.register(2)
    two.controller.startup(own_thread=False)
    two.settle()
    return one, two


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
    one, two = rivals(make)
    assert not two.controller.is_active
    assert two.controller.active_controller_id == 1
    one.controller.shutdown()
    one.zk.close()
    two.run_until(lambda: two.controller.is_active, "takeover")
    assert two.controller.epoch == 2
    assert not one.controller.is_active


def test_controller_znode_deleted_by_hand(make: MakeHarness) -> None:
    one, two = rivals(make)
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
    one, two = rivals(make)
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


def test_an_id_that_another_process_took_while_the_session_was_lost_is_registered_when_it_is_free(
    cluster: Harness, zookeeper: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Apache Kafka 3.9.1 tries once, logs the error and stays unregistered, also when the id is free again."""
    old_epoch = cluster.context.brokers[1].epoch
    expire(zookeeper, cluster.zk)
    other = cluster.make_client()
    assert other.register_broker(broker_info(1), 5, 1000) > old_epoch

    def held() -> list[str]:
        return [record.getMessage() for record in caplog.records if "is already registered" in record.getMessage()]

    cluster.run_until(lambda: bool(held()), "failed registration")
    for _ in range(5):
        cluster.clock.advance(RETRY_MS)
        cluster.scheduler.tick()
        cluster.settle()
    assert len(held()) == 1
    assert not cluster.epochs
    assert not cluster.controller.is_active

    other.close()
    cluster.clock.advance(RETRY_MS)
    cluster.scheduler.tick()
    cluster.run_until(lambda: cluster.controller.is_active, "reelection")
    registered = cluster.zk.read(paths.broker_id(1))
    assert registered is not None
    assert registered[1].ephemeral_owner == cluster.zk.session.session_id
    assert cluster.epochs == [registered[1].czxid]
