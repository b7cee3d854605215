"""Typed operations against a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from controller.zk import paths
from controller.zk.access import ControllerMovedError
from controller.zk.client import ZkClient
from controller.zk.kazoo_session import KazooSession
from controller.zk.ops import Code, Create, Delete, SetData
from controller.zk.payloads import (
    BrokerInfo,
    EndPoint,
    FeatureZnode,
    PartitionState,
    PayloadError,
    ReplicaAssignment,
    TopicZnode,
)
from controller.zk.session import ZkError
from log.topic_partition import TopicPartition
from tests.support.paths import shared_golden
from timer.chance import SystemChance

pytestmark = pytest.mark.both_zookeepers

MakeClient = Callable[..., ZkClient]


def broker(broker_id: int, port: int = 9092) -> BrokerInfo:
    return BrokerInfo(broker_id, (EndPoint("PLAINTEXT", "127.0.0.1", port, "PLAINTEXT"),))


@pytest.fixture
def fence(zk: ZkClient) -> int:
    zk.create_startup_paths()
    return zk.register_controller(1, 5)[1]


def test_startup_paths_are_those_of_a_fresh_kafka(zk: ZkClient) -> None:
    dumps = json.loads((shared_golden() / "znodes.json").read_text())["dumps"]
    fresh = next(dump["znodes"] for dump in dumps if dump["label"] == "chroot_generated_id")
    zk.create_startup_paths()
    zk.create_startup_paths()
    for path in paths.PERSISTENT_AT_STARTUP:
        found = zk.read(path)
        assert found is not None, path
        assert found[0] is None, path
        assert any(name.endswith(path) for name in fresh), path


def test_register_broker(zk: ZkClient, make_client: MakeClient) -> None:
    zk.create_startup_paths()
    epoch = zk.register_broker(broker(1), 5, 1000)
    found = zk.read(paths.broker_id(1))
    assert found is not None
    assert (found[1].czxid, found[1].version) == (epoch, 1)
    assert found[1].ephemeral_owner == zk.session.session_id
    # A repeated create (its answer was lost) is recognised and does not rewrite.
    assert zk.register_broker(broker(1), 5, 2000) == epoch
    assert zk.brokers() == {1: BrokerInfo(1, broker(1).endpoints, epoch=epoch)}
    other = make_client()
    with pytest.raises(ZkError) as refused:
        other.register_broker(broker(1), 5, 3000)
    assert refused.value.code is Code.NODE_EXISTS
    zk.update_broker(broker(1, 9999), 5, 4000)
    updated = other.broker(1)
    assert updated is not None
    assert (updated.endpoints[0].port, updated.epoch) == (9999, epoch)
    assert other.endpoint_conflict(broker(2, 9999)) is not None
    assert other.endpoint_conflict(broker(2, 9998)) is None
    assert other.endpoint_conflict(broker(1, 9999)) is None


def test_registration_of_an_own_expired_session_is_replaced(make_client: MakeClient) -> None:
    stale = make_client()
    stale.create_startup_paths()
    first = stale.register_broker(broker(1), 5, 1)
    fresh = make_client()
    # The state of a client whose new session is here before the server dropped the old one.
    fresh._registered_session = stale.session.session_id
    second = fresh.register_broker(broker(1), 5, 2)
    assert second > first


def test_generated_ids(zk: ZkClient) -> None:
    assert [zk.generate_broker_id(1000) for _ in range(3)] == [1001, 1002, 1003]
    found = zk.read(paths.BROKER_SEQUENCE_ID)
    assert found is not None
    assert found[0] == b""


def test_cluster_id(zk: ZkClient, make_client: MakeClient) -> None:
    assert zk.cluster_id() is None
    made = zk.create_or_get_cluster_id(SystemChance())
    assert len(made) == 22
    assert make_client().create_or_get_cluster_id(SystemChance()) == made


def test_only_one_controller_and_the_epoch_counts_every_win(make_client: MakeClient) -> None:
    one, two = make_client(), make_client()
    assert one.controller_epoch() is None
    assert one.register_controller(1, 10) == (1, 1)
    with pytest.raises(ControllerMovedError):
        two.register_controller(2, 11)
    assert one.controller_epoch() == (1, 1)
    one.delete_controller(1)
    assert two.register_controller(2, 12) == (2, 2)
    current = two.controller()
    assert current is not None
    assert (current.broker_id, current.kraft_epoch) == (2, -1)
    with pytest.raises(ControllerMovedError):
        one.delete_controller(1)
    assert two.controller() is not None


def test_an_election_whose_answer_was_lost_is_recognised(zk: ZkClient) -> None:
    zk.register_controller(1, 10)
    # What a retried transaction finds: /controller is its own and the epoch is the one it wanted.
    assert zk._verify_own_election(1, 1) == (1, 1)
    with pytest.raises(ControllerMovedError):
        zk._verify_own_election(1, 2)
    with pytest.raises(ControllerMovedError):
        zk._verify_own_election(2, 1)


def test_fenced_batches(zk: ZkClient, fence: int) -> None:
    requests = [Create(f"/n{number}", None) for number in range(200)]
    assert all(answer.ok for answer in zk.fenced(requests, fence))
    mixed = zk.fenced([Create("/n5", None), Create("/new", None), SetData("/absent", b""), Delete("/n7")], fence)
    assert [answer.code for answer in mixed] == [Code.NODE_EXISTS, Code.OK, Code.NO_NODE, Code.OK]
    with pytest.raises(ControllerMovedError):
        zk.fenced([Create("/zombie1", None), Create("/zombie2", None)], fence + 1)
    assert not zk.exists("/zombie1")
    with pytest.raises(ControllerMovedError):
        zk.fenced([Create("/zombie1", None)], fence - 1 if fence > 1 else fence + 1)
    assert zk.fenced([], fence) == []


def test_partition_states(zk: ZkClient, fence: int) -> None:
    zk.create_topic("t", None, {0: [1, 2], 1: [2, 1]})
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    state = PartitionState(1, 0, (1, 2), 1)
    assert zk.create_partition_states({first: state}, fence) == {first: Code.OK}
    assert zk.create_partition_states({first: state, second: state}, fence) == {
        first: Code.NODE_EXISTS,
        second: Code.OK,
    }
    assert zk.partition_numbers("t") == {0, 1}
    assert zk.partition_states([first, TopicPartition("t", 7)]) == {first: state}
    changed = PartitionState(2, 1, (2,), 1, partition_epoch=0)
    results = zk.set_partition_states({first: changed, second: PartitionState(2, 1, (2,), 1, partition_epoch=5)}, fence)
    assert results[first] == PartitionState(2, 1, (2,), 1, partition_epoch=1)
    assert results[second] is Code.BAD_VERSION


def test_leader_side_isr_write(zk: ZkClient, fence: int) -> None:
    partition = TopicPartition("t", 0)
    zk.create_topic("t", None, {0: [1, 2]})
    zk.create_partition_states({partition: PartitionState(1, 0, (1, 2), 1)}, fence)
    shrunk = PartitionState(1, 0, (1,), 1, partition_epoch=0)
    written = zk.set_partition_state_as_leader(partition, shrunk)
    assert written is not None
    assert written.partition_epoch == 1
    # The same write once more, as after a lost answer: recognised. Another one with an old version: refused.
    assert zk.set_partition_state_as_leader(partition, shrunk) == written
    assert zk.set_partition_state_as_leader(partition, PartitionState(1, 0, (1, 2), 1, partition_epoch=0)) is None
    assert zk.set_partition_state_as_leader(TopicPartition("gone", 0), shrunk) is None


def test_topics_and_deletion(zk: ZkClient, fence: int) -> None:
    zk.create_topic("t", bytes(range(16)), {0: [1], 1: [2]})
    zk.create_topic("u", None, {0: [1]})
    assert zk.topic_names() == {"t", "u"}
    zk.set_topic("t", TopicZnode(bytes(range(16)), {0: ReplicaAssignment((2, 1), (2,), (1,))}), fence)
    assert zk.topics(["t", "absent"]) == {"t": TopicZnode(bytes(range(16)), {0: ReplicaAssignment((2, 1), (2,), (1,))})}
    zk.create_partition_states(
        {TopicPartition("t", number): PartitionState(1, 0, (1,), 1) for number in range(3)}, fence
    )
    zk.set_config("topics/t", {"a": "b"})
    zk.create_delete_topic("t")
    zk.create_delete_topic("t")
    assert zk.topics_to_delete() == {"t"}
    zk.delete_topic_tree("t", fence)
    zk.delete_topic_config("t", fence)
    zk.delete_topic_markers(["t", "never"], fence)
    assert zk.topic_names() == {"u"}
    assert zk.topics_to_delete() == set()
    assert zk.config_entities("topics") == []
    zk.delete_topic_tree("t", fence)
    with pytest.raises(ControllerMovedError):
        zk.delete_topic_tree("u", fence + 1)


def test_notifications(zk: ZkClient, fence: int) -> None:
    zk.propagate_isr_changes([TopicPartition("t", 0), TopicPartition("t", 1)])
    zk.propagate_isr_changes([TopicPartition("t", 1)])
    names = zk.isr_change_names()
    assert names == ["isr_change_0000000000", "isr_change_0000000001"]
    assert zk.isr_changes([*names, "isr_change_0000000009"]) == [TopicPartition("t", 0), TopicPartition("t", 1)]
    zk.delete_isr_changes(names, fence)
    assert zk.isr_change_names() == []
    zk.propagate_log_dir_failure(3)
    events = zk.log_dir_event_names()
    assert zk.log_dir_event_brokers(events) == {3}
    zk.delete_log_dir_events(events, fence)
    assert zk.log_dir_event_names() == []


def test_reassignment_and_election_znodes(zk: ZkClient, fence: int) -> None:
    partition = TopicPartition("t", 0)
    assert zk.reassign_partitions() == {}
    zk.set_reassign_partitions({partition: [1, 2]}, fence)
    zk.set_reassign_partitions({partition: [3]}, fence)
    assert zk.reassign_partitions() == {partition: (3,)}
    zk.delete_reassign_partitions(fence)
    zk.delete_reassign_partitions(fence)
    assert zk.preferred_election() == []
    zk.create_preferred_election([partition])
    assert zk.preferred_election() == [partition]
    zk.delete_preferred_election(fence)
    assert zk.preferred_election() == []


def test_producer_id_blocks(zk: ZkClient) -> None:
    zk.create_startup_paths()
    blocks = [zk.allocate_producer_id_block(broker_id) for broker_id in (1, 2, 1)]
    assert [(block.broker_id, block.first, block.last) for block in blocks] == [
        (1, 0, 999),
        (2, 1000, 1999),
        (1, 2000, 2999),
    ]
    zk.session.submit([SetData(paths.PRODUCER_ID_BLOCK, b"")])
    with pytest.raises(PayloadError):
        zk.allocate_producer_id_block(1)


def test_feature(zk: ZkClient) -> None:
    assert zk.feature() is None
    assert zk.write_feature(FeatureZnode(2, True)) == 0
    assert zk.write_feature(FeatureZnode(2, False)) == 1
    assert zk.feature() == (FeatureZnode(2, False), 1)


def test_configs_need_a_controller(zk: ZkClient) -> None:
    with pytest.raises(ControllerMovedError):
        zk.set_config("topics/t", {})
    zk.register_controller(1, 1)
    zk.set_config("topics/t", {"retention.ms": "1"})
    zk.set_config("topics/t", {"retention.ms": "2"})
    assert zk.topic_config("t") == {"retention.ms": "2"}
    assert zk.topic_configs(["t", "absent"]) == {"t": {"retention.ms": "2"}, "absent": {}}
    zk.set_config("users/alice/clients/app", {"producer_byte_rate": "1"})
    found = zk.read("/config/users/alice")
    assert found is not None
    assert found[0] is None
    zk.session.submit(
        [SetData(paths.CONTROLLER, b'{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":3}')]
    )
    with pytest.raises(ControllerMovedError):
        zk.set_config("topics/t", {})


def test_secure_acls(connect: str, zookeeper: str) -> None:
    from kazoo.client import KazooClient

    session = KazooSession(
        connect, session_timeout_ms=6000, secure_acls=True, client_options={"auth_data": [("digest", "user:secret")]}
    )
    session.start()
    client = ZkClient(session)
    try:
        client.create_startup_paths()
        raw = KazooClient(hosts=zookeeper, auth_data=[("digest", "user:secret")])
        raw.start()
        try:
            chroot = "/" + connect.partition("/")[2]
            names = ("/consumers", "/brokers/ids", "/config/users", "/config/topics")
            perms = {name: [entry.perms for entry in raw.get_acls(f"{chroot}{name}")[0]] for name in names}
        finally:
            raw.stop()
            raw.close()
    finally:
        client.close()
    assert perms == {"/consumers": [31], "/brokers/ids": [31, 1], "/config/users": [31], "/config/topics": [31, 1]}
