"""A controller that fails over onto each ZooKeeper dump of an Apache Kafka 3.9.1 cluster.

The dump is loaded with live registrations of the same ids; the result is compared with what Kafka's controller does
with such a state, and nothing else may have been changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from controller.states import PartitionStatus, ReplicaStatus
from controller.zk import payloads
from controller.zk.ops import Create, Multi, SetData
from log.topic_partition import TopicPartition
from network.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from network.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.support.paths import SHARED_GOLDEN, shared_golden
from tests.unit.controller.harness import Harness, leaderships, metadata, tp

Make = Callable[..., Harness]
Znodes = dict[str, dict[str, Any]]


def dumps() -> dict[str, Znodes]:
    if not SHARED_GOLDEN.is_dir():
        return {}
    content = json.loads((shared_golden() / "znodes.json").read_text())
    return {dump["label"]: dump["znodes"] for dump in content["dumps"]}


DUMPS = dumps()


def state_paths(znodes: Znodes) -> list[str]:
    return [path for path in znodes if path.startswith("/brokers/topics/") and path.endswith("/state")]


def partition_of(path: str) -> TopicPartition:
    parts = path.split("/")
    return TopicPartition(parts[3], int(parts[5]))


class Loaded:
    """A dump in ZooKeeper with its brokers registered, ready for a controller."""

    def __init__(self, make: Make, label: str) -> None:
        if not DUMPS:
            shared_golden()
        self.before = DUMPS[label]
        self.live = sorted(int(path.rpartition("/")[2]) for path in self.before if "/brokers/ids/" in path)
        version = "2.6" if label.startswith("ibp_") else "3.9"
        self.harness = make(version, broker_id=self.live[0], auto_leader_rebalance_enable=False)
        self._load()

    def _load(self) -> None:
        prefix = "/chroot/a"
        strip = any(path.startswith(prefix) for path in self.before)
        self.znodes: Znodes = {}
        creates = []
        for path, znode in sorted(self.before.items()):
            if strip:
                if not path.startswith(prefix + "/"):
                    continue
                path = path[len(prefix) :]
            self.znodes[path] = znode
            if path in ("/", "/controller") or path.startswith("/brokers/ids/"):
                continue
            data = None if znode["data"] is None else znode["data"].encode()
            creates.append((path, data, znode["version"]))
        session = self.harness.zk.session
        session.submit([Create(path, None) for path, _, _ in creates])
        # As many writes as there were, so that versions (partition epochs) are those of the dump.
        writes = []
        for path, data, version in creates:
            if data is not None:
                for _ in range(max(version, 1)):
                    writes.append(SetData(path, data))
        for start in range(0, len(writes), 100):
            assert session.submit([Multi(tuple(writes[start : start + 100]))])[0].ok
        if strip:
            self.live = sorted(int(path.rpartition("/")[2]) for path in self.znodes if path.startswith("/brokers/ids/"))

    def fail_over(self) -> None:
        for broker in self.live[1:]:
            self.harness.register(broker)
        self.harness.start()

    def golden_state(self, partition: TopicPartition) -> payloads.PartitionState:
        znode = self.znodes[f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"]
        state = payloads.decode_partition_state(znode["data"].encode(), 0)
        assert state is not None
        return state


QUIET = [
    "fresh",
    "steady",
    "reassignment_done_throttles_left",
    "broker_2_back",
    "controller_moved_broker_0_down",
    "broker_1_killed_session_expired",
    "all_back",
    "delegation_token",
    "ibp_steady",
    "ibp_isr_after",
    "ibp_broker_1_down",
    "chroot_generated_id",
]


@pytest.mark.parametrize("label", QUIET)
def test_a_cluster_at_rest_is_taken_over_and_left_alone(make: Make, label: str) -> None:
    loaded = Loaded(make, label)
    loaded.fail_over()
    harness, context = loaded.harness, loaded.harness.context
    golden_epoch = int(loaded.znodes["/controller_epoch"]["data"])
    assert harness.controller.epoch == golden_epoch + 1
    topics = {path.split("/")[3] for path in loaded.znodes if path.startswith("/brokers/topics/")}
    assert context.topics == topics
    # Leaders and ISRs are good already, so no state is written; only where the last ISR member is dead, Kafka's
    # controller too raises the leader epoch at every failover.
    stuck: set[str] = set()
    for path in state_paths(loaded.znodes):
        partition = partition_of(path)
        golden = loaded.golden_state(partition)
        if golden.leader == -1:
            stuck.add(path)
            assert harness.leader_isr(partition) == (-1, golden.isr, golden.leader_epoch + 1)
            assert context.partition_state(partition) is PartitionStatus.OFFLINE
        else:
            assert context.partition_state(partition) is PartitionStatus.ONLINE
    # Every other znode is as it was.
    for path, znode in loaded.znodes.items():
        if path.startswith(("/brokers/ids/", "/controller")) or path == "/" or path in stuck:
            continue
        found = harness.zk.read(path)
        assert found is not None, path
        data = None if found[0] is None else found[0].decode()
        assert data == znode["data"], path
    # Each live broker is told all its replicas, and everything by UpdateMetadata.
    for broker in loaded.live:
        told = {partition for sent in harness.sent(LeaderAndIsrRequest, broker) for partition in leaderships(sent)}
        hosted = {
            partition for partition in map(partition_of, state_paths(loaded.znodes))
            if broker in context.replicas(partition)
        }  # fmt: skip
        assert told == hosted
        first = harness.sent(UpdateMetadataRequest, broker)[0].request
        assert first.topic_states == []
        assert [item.id for item in first.live_brokers] == loaded.live
        known = {partition for sent in harness.sent(UpdateMetadataRequest, broker) for partition in metadata(sent)}
        assert known == set(map(partition_of, state_paths(loaded.znodes)))


def test_reassignment_in_progress_is_resumed(make: Make) -> None:
    loaded = Loaded(make, "reassignment_in_progress")
    loaded.fail_over()
    harness, context = loaded.harness, loaded.harness.context
    assert context.reassigning == {tp("moving-0"), tp("moving-1")}
    for partition in sorted(context.reassigning):
        golden = loaded.golden_state(partition)
        # Phase A again: only the leader epoch rises.
        leader, isr, epoch = harness.leader_isr(partition)
        assert (leader, isr, epoch) == (golden.leader, golden.isr, golden.leader_epoch + 1)
        znode = harness.zk.topic("moving")
        assert znode is not None
        assert znode.assignment[partition.partition].being_reassigned
        adding = context.assignment(partition).adding
        told = harness.told(LeaderAndIsrRequest, partition)
        assert all(told[broker].is_new for broker in adding)
    assert json.loads((harness.zk.read("/brokers/topics/moving") or (b"", None))[0] or b"") == json.loads(
        loaded.znodes["/brokers/topics/moving"]["data"]
    )


def test_broker_down_with_a_move_onto_it(make: Make) -> None:
    """Broker 2 is down while moving-0 grows onto 1: nothing changes but what Kafka's controller changed already."""
    loaded = Loaded(make, "broker_2_down")
    loaded.fail_over()
    context = loaded.harness.context
    assert context.reassigning == {tp("moving-0")}
    for path in state_paths(loaded.znodes):
        partition = partition_of(path)
        if partition.topic == "moving":
            continue
        golden = loaded.golden_state(partition)
        leader, isr, epoch = loaded.harness.leader_isr(partition)
        assert (leader, isr, epoch) == (golden.leader, golden.isr, golden.leader_epoch), partition
        assert 2 not in isr


def test_deletion_pending_waits_and_completes(make: Make) -> None:
    loaded = Loaded(make, "deletion_pending_broker_2_down")
    loaded.fail_over()
    harness, context = loaded.harness, loaded.harness.context
    assert context.topics_to_delete == {"compacted"}
    assert context.topics_ineligible >= {"compacted"}
    assert harness.zk.topic_exists("compacted")
    # Not announced as existing; its leader shows as -2.
    for sent in harness.sent(UpdateMetadataRequest):
        for partition, state in metadata(sent).items():
            assert (state.leader == -2) == (partition.topic == "compacted")
    assert all(
        context.replica_state(item) in (ReplicaStatus.OFFLINE, ReplicaStatus.ONLINE, ReplicaStatus.DELETION_INELIGIBLE)
        for item in context.replicas_of_topic("compacted")
    )
    harness.register(2)
    harness.run_until(lambda: "compacted" not in context.topics, "deletion")
    assert not harness.zk.topic_exists("compacted")
    assert not harness.zk.exists("/config/topics/compacted")
    assert harness.zk.topics_to_delete() == set()
