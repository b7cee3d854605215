"""Requests that repeat, mix and miss what they name, of every API whose answers list results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from network.protocol.api import API
from network.protocol.message import Request
from network.protocol.messages import (
    add_partitions_to_txn,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    elect_leaders,
    incremental_alter_configs,
    leave_group,
    list_offsets,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from network.protocol.messages.delete_groups import DeleteGroupsRequest
from network.protocol.messages.describe_groups import DescribeGroupsRequest
from network.protocol.messages.describe_transactions import DescribeTransactionsRequest
from network.protocol.messages.find_coordinator import FindCoordinatorRequest
from network.protocol.messages.list_transactions import ListTransactionsRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support import wire
from tests.support.cluster import Broker

WAIT_MS = 15_000
UNKNOWN_ID = bytes(range(1, 17))


class World(NamedTuple):
    """A broker with topics `one` (1 partition), `two` (2) and `gone-*`, a group, and a transactional producer."""

    broker: Broker
    ids: dict[str, bytes]
    producer: tuple[int, int]


class Case(NamedTuple):
    name: str
    make: Callable[[World, int], Request]
    versions: range
    ordered: bool
    """Whether the order is the request's in Kafka, and not a hash table's."""


CASES: list[Case] = []

Make = Callable[[World, int], Request]


def case(name: str, first: int = 0, last: int | None = None, *, ordered: bool = True) -> Callable[[Make], Make]:
    """Put what is decorated into the table, for these versions or all."""

    def put(make: Make) -> Make:
        key = next(key for key, spec in API.items() if spec.name == name.split(" ")[0])
        end = API[key].max_version if last is None else last
        CASES.append(Case(name, make, range(max(first, API[key].min_version), end + 1), ordered))
        return make

    return put


@case("CreateTopics")
def _create(world: World, version: int) -> Request:
    names = [f"a-{version}", "one", f"b-{version}", f"a-{version}", "a b", f"c-{version}", f"b-{version}"]
    new = create_topics.CreatableTopic
    topics = [new(name=name, num_partitions=1, replication_factor=1) for name in names]
    return create_topics.CreateTopicsRequest(topics=topics, timeout_ms=WAIT_MS)


@case("CreatePartitions", ordered=False)
def _grow(world: World, version: int) -> Request:
    wanted = [(f"c-{version}", 3), ("one", 1), ("missing", 2), ("two", 5), ("two", 6), ("missing", 3)]
    topics = [create_partitions.CreatePartitionsTopic(name=name, count=n, assignments=None) for name, n in wanted]
    return create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=WAIT_MS)


@case("DeleteTopics by name", last=5)
def _delete(world: World, version: int) -> Request:
    names = ["missing", f"gone-{version}", "a b", f"gone-{version}", "missing", f"c-{version}"]
    return delete_topics.DeleteTopicsRequest(topic_names=names, timeout_ms=WAIT_MS)


@case("DeleteTopics by name and id", first=6)
def _delete_mixed(world: World, version: int) -> Request:
    state = delete_topics.DeleteTopicState
    topics = [
        state(name="missing"), state(name="gone-a"), state(name=None, topic_id=UNKNOWN_ID), state(name="gone-a"),
        state(name=None, topic_id=world.ids["gone-b"]), state(name="gone-b"), state(name="missing"),
        state(name=None, topic_id=world.ids["gone-b"]), state(name=None, topic_id=UNKNOWN_ID),
        state(name=None, topic_id=world.ids["gone-c"]), state(name=""), state(name="gone-d"), state(name=None),
    ]  # fmt: skip
    return delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=WAIT_MS)


@case("DeleteTopics name with id", first=6)
def _delete_both(world: World, version: int) -> Request:
    topics = [delete_topics.DeleteTopicState(name="one", topic_id=world.ids["one"])]
    return delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=WAIT_MS)


@case("DeleteRecords", ordered=False)
def _delete_records(world: World, version: int) -> Request:
    def topic(name: str, *offsets: tuple[int, int]) -> delete_records.DeleteRecordsTopic:
        parts = [delete_records.DeleteRecordsPartition(partition_index=index, offset=at) for index, at in offsets]
        return delete_records.DeleteRecordsTopic(name=name, partitions=parts)

    topics = [topic("two", (0, 0), (7, 0)), topic("missing", (0, 0)), topic("one"), topic("two", (0, 0), (1, 99))]
    return delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=WAIT_MS)


@case("ElectLeaders", ordered=False)
def _elect(world: World, version: int) -> Request:
    wanted = [("two", [0, 1, 1]), ("missing", [0]), ("two", [0, 9]), ("one", [])]
    topics = [elect_leaders.TopicPartitions(topic=name, partitions=parts) for name, parts in wanted]
    return elect_leaders.ElectLeadersRequest(topic_partitions=topics, timeout_ms=WAIT_MS)


@case("AlterPartitionReassignments", ordered=False)
def _reassign(world: World, version: int) -> Request:
    part, topic = alter_partition_reassignments.ReassignablePartition, alter_partition_reassignments.ReassignableTopic

    def wanted(name: str, *moves: tuple[int, list[int] | None]) -> Any:
        return topic(name=name, partitions=[part(partition_index=index, replicas=to) for index, to in moves])

    topics = [wanted("two", (0, [0]), (0, None), (9, [0])), wanted("missing", (0, [0])), wanted("two", (1, []))]
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=WAIT_MS)


@case("AlterReplicaLogDirs", ordered=False)
def _move(world: World, version: int) -> Request:
    def to(path: str, **topics: list[int]) -> alter_replica_log_dirs.AlterReplicaLogDir:
        moved = [alter_replica_log_dirs.AlterReplicaLogDirTopic(name=n, partitions=p) for n, p in topics.items()]
        return alter_replica_log_dirs.AlterReplicaLogDir(path=path, topics=moved)

    own = str(world.broker.data)
    dirs = [to("/nowhere", one=[0, 0, 5], missing=[0]), to(own, one=[0], two=[0, 1]), to("/nowhere", two=[1])]
    return alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=dirs)


@case("DescribeLogDirs", ordered=False)
def _directories(world: World, version: int) -> Request:
    wanted = [("one", [0, 0]), ("missing", [0]), ("one", [0, 5])]
    topics = [describe_log_dirs.DescribableLogDirTopic(topic=name, partitions=parts) for name, parts in wanted]
    return describe_log_dirs.DescribeLogDirsRequest(topics=topics)


@case("DescribeProducers")
def _producers(world: World, version: int) -> Request:
    wanted = [("one", [0, 0, 7]), ("missing", [0]), ("a b", [0]), ("one", [0])]
    topics = [describe_producers.TopicRequest(name=name, partition_indexes=parts) for name, parts in wanted]
    return describe_producers.DescribeProducersRequest(topics=topics)


@case("FindCoordinator", first=4)
def _find(world: World, version: int) -> Request:
    return FindCoordinatorRequest(coordinator_keys=["a", "b", "a", ""], key_type=0)


@case("DescribeGroups")
def _describe_groups(world: World, version: int) -> Request:
    return DescribeGroupsRequest(groups=["missing", "group", "missing", "", "group"])


@case("DeleteGroups", ordered=False)
def _delete_groups(world: World, version: int) -> Request:
    return DeleteGroupsRequest(groups_names=["missing", "other", "missing", ""])


@case("DescribeTransactions")
def _transactions(world: World, version: int) -> Request:
    return DescribeTransactionsRequest(transactional_ids=["tx", "missing", "tx", "missing", ""])


@case("ListTransactions", ordered=False)
def _list(world: World, version: int) -> Request:
    return ListTransactionsRequest(state_filters=["Bogus", "Dead", "Bogus", "Other"], producer_id_filters=[77, 77])


@case("OffsetCommit", first=2, ordered=False)
def _commit(world: World, version: int) -> Request:
    def topic(name: str, *offsets: tuple[int, int]) -> offset_commit.OffsetCommitRequestTopic:
        part = offset_commit.OffsetCommitRequestPartition
        parts = [part(partition_index=index, committed_offset=at, committed_metadata="m") for index, at in offsets]
        return offset_commit.OffsetCommitRequestTopic(name=name, partitions=parts)

    topics = [topic("one", (0, 7), (0, 8), (5, 1)), topic("missing", (0, 1)), topic("two"), topic("one", (0, 9))]
    return offset_commit.OffsetCommitRequest(group_id="group", topics=topics)


@case("OffsetFetch", first=1, last=7)
def _fetch_offsets(world: World, version: int) -> Request:
    wanted = [("one", [0, 0, 5]), ("missing", [0]), ("one", [0]), ("two", [])]
    topics = [offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=parts) for name, parts in wanted]
    return offset_fetch.OffsetFetchRequest(group_id="group", topics=topics)


@case("OffsetFetch of many groups", first=8, ordered=False)
def _fetch_many(world: World, version: int) -> Request:
    wanted = [("one", [0, 0, 5]), ("missing", [0]), ("one", [0])]
    topics = [offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=parts) for name, parts in wanted]
    asked = [("group", topics), ("other", topics), ("group", None), ("", None)]
    groups = [offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=named) for group, named in asked]
    return offset_fetch.OffsetFetchRequest(groups=groups)


@case("OffsetDelete", ordered=False)
def _delete_offsets(world: World, version: int) -> Request:
    part, topic = offset_delete.OffsetDeleteRequestPartition, offset_delete.OffsetDeleteRequestTopic
    wanted = [("two", [1, 1, 9]), ("missing", [0]), ("two", [0]), ("one", [])]
    topics = [topic(name=name, partitions=[part(partition_index=index) for index in parts]) for name, parts in wanted]
    return offset_delete.OffsetDeleteRequest(group_id="group", topics=topics)


def _added(world: World, *wanted: tuple[str, list[int]]) -> Request:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=parts) for name, parts in wanted]
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=world.producer[0],
        v3_and_below_producer_epoch=world.producer[1],
        v3_and_below_topics=topics,
    )


@case("AddPartitionsToTxn", last=3)
def _add(world: World, version: int) -> Request:
    return _added(world, ("one", [0, 0]), ("two", [0]), ("one", [0]))


@case("AddPartitionsToTxn with faults", last=3, ordered=False)
def _add_faults(world: World, version: int) -> Request:
    return _added(world, ("one", [0, 0, 4]), ("missing", [0]), ("one", [0]))


@case("AddPartitionsToTxn for brokers", first=4, ordered=False)
def _add_many(world: World, version: int) -> Request:
    def part(name: str, *wanted: tuple[str, list[int]], verify: bool = False) -> Any:
        topics = [
            add_partitions_to_txn.AddPartitionsToTxnTopic(name=topic, partitions=parts) for topic, parts in wanted
        ]
        return add_partitions_to_txn.AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=world.producer[0],
            producer_epoch=world.producer[1],
            verify_only=verify,
            topics=topics,
        )

    transactions = [
        part("tx", ("one", [0, 0]), ("one", [0])),
        part("other", ("one", [0]), ("missing", [0]), ("one", [0])),
        part("third", ("two", [1, 1, 0]), ("two", [0]), verify=True),
    ]
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=transactions)


@case("TxnOffsetCommit", ordered=False)
def _commit_in_transaction(world: World, version: int) -> Request:
    def topic(name: str, *offsets: tuple[int, int]) -> txn_offset_commit.TxnOffsetCommitRequestTopic:
        part = txn_offset_commit.TxnOffsetCommitRequestPartition
        parts = [part(partition_index=index, committed_offset=at, committed_metadata="m") for index, at in offsets]
        return txn_offset_commit.TxnOffsetCommitRequestTopic(name=name, partitions=parts)

    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="group",
        producer_id=world.producer[0],
        producer_epoch=world.producer[1],
        topics=[topic("one", (0, 7), (0, 8), (5, 1)), topic("missing", (0, 1)), topic("one", (0, 9))],
    )


@case("ListOffsets", first=1)
def _list_offsets(world: World, version: int) -> Request:
    part, topic = list_offsets.ListOffsetsPartition, list_offsets.ListOffsetsTopic
    wanted = [("two", [0, 0, 8]), ("missing", [0]), ("two", [1, 0])]
    topics = [
        topic(name=name, partitions=[part(partition_index=index, timestamp=-1) for index in parts])
        for name, parts in wanted
    ]
    return list_offsets.ListOffsetsRequest(replica_id=-1, topics=topics)


@case("OffsetForLeaderEpoch", ordered=False)
def _epochs(world: World, version: int) -> Request:
    part, topic = offset_for_leader_epoch.OffsetForLeaderPartition, offset_for_leader_epoch.OffsetForLeaderTopic
    wanted = [("two", [0, 9]), ("missing", [0]), ("one", [0])]
    topics = [
        topic(topic=name, partitions=[part(partition=index, leader_epoch=0) for index in parts])
        for name, parts in wanted
    ]
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


@case("WriteTxnMarkers", ordered=False)
def _markers(world: World, version: int) -> Request:
    def marker(*wanted: tuple[str, list[int]]) -> write_txn_markers.WritableTxnMarker:
        topics = [
            write_txn_markers.WritableTxnMarkerTopic(name=name, partition_indexes=parts) for name, parts in wanted
        ]
        return write_txn_markers.WritableTxnMarker(producer_id=77, producer_epoch=0, topics=topics)

    markers = [marker(("two", [0, 7]), ("missing", [0])), marker(("two", [1]))]
    return write_txn_markers.WriteTxnMarkersRequest(markers=markers)


@case("Metadata", first=4)
def _metadata(world: World, version: int) -> Request:
    names = ["one", "missing", "one", "two", "a b", "missing"]
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


@case("Metadata by id", first=12)
def _metadata_by_id(world: World, version: int) -> Request:
    ids = [world.ids["one"], UNKNOWN_ID, world.ids["one"], UNKNOWN_ID]
    topics = [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    return MetadataRequest(topics=[*topics, MetadataRequestTopic(name="two")], allow_auto_topic_creation=False)


@case("Produce", first=3, ordered=False)
def _produce(world: World, version: int) -> Request:
    batch = bytes(wire.batch([b"v"]))

    def topic(name: str, *wanted: tuple[int, bytes]) -> produce.TopicProduceData:
        parts = [produce.PartitionProduceData(index=index, records=records) for index, records in wanted]
        return produce.TopicProduceData(name=name, partition_data=parts)

    topics = [topic("two", (0, batch), (7, batch), (0, batch)), topic("missing", (0, batch)), topic("two", (1, b""))]
    return produce.ProduceRequest(acks=-1, timeout_ms=WAIT_MS, topic_data=topics)


@case("DescribeConfigs")
def _configs(world: World, version: int) -> Request:
    resource = describe_configs.DescribeConfigsResource
    asked = [(2, "one"), (2, "missing"), (4, "0"), (2, "one"), (4, "x"), (2, "missing")]
    resources = [resource(resource_type=kind, resource_name=name, configuration_keys=["none"]) for kind, name in asked]
    return describe_configs.DescribeConfigsRequest(resources=resources)


@case("IncrementalAlterConfigs", ordered=False)
def _alter_configs(world: World, version: int) -> Request:
    resource = incremental_alter_configs.AlterConfigsResource
    asked = [(2, "one"), (2, "two"), (2, "missing"), (2, "one"), (4, "x"), (2, "missing")]
    resources = [resource(resource_type=kind, resource_name=name) for kind, name in asked]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=resources)


@case("LeaveGroup", first=3)
def _leave(world: World, version: int) -> Request:
    members = [("a", None), ("b", "instance"), ("a", None), ("", "instance")]
    identity = leave_group.MemberIdentity
    return leave_group.LeaveGroupRequest(
        group_id="group", members=[identity(member_id=member, group_instance_id=name) for member, name in members]
    )


@case("UpdateFeatures", ordered=False)
def _features(world: World, version: int) -> Request:
    key = update_features.FeatureUpdateKey
    updates = [key(feature=name, max_version_level=1) for name in ("some", "other", "some", "")]
    return update_features.UpdateFeaturesRequest(timeout_ms=WAIT_MS, feature_updates=updates)
