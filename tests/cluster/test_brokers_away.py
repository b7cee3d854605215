"""What happens while a broker is away, and when it comes back: unclean elections, topics that are extended, deleted and
made again; and `/controller` deleted or overwritten by hand under load. On Odradek and on Apache Kafka."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from broker.dev.polling import wait_until
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from network.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from network.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponsePartition
from tests.reference import kafka
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster, running_cluster
from tests.support.replication import (
    QUIET,
    IdempotentLoad,
    Reader,
    ask_controller,
    check_replicas,
    delete_topic,
    log_content,
    read_back,
    wait_in_sync,
)
from tests.support.zookeeper import zookeeper_client

SETTINGS = {
    "zookeeper.session.timeout.ms": "18000",
    "replica.lag.time.max.ms": "10000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "3",
    # The last in-sync replica cannot hand its leadership over; it need not try for long.
    "controlled.shutdown.max.retries": "1",
    "controlled.shutdown.retry.backoff.ms": "100",
    "log.segment.delete.delay.ms": "500",
}
PREFERRED, UNCLEAN = 0, 1
NONE = ErrorCode.NONE
SAME = ("old", "older")


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def shared(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three brokers of a kind for all tests of this module."""
    if request.param == "kafka":
        kafka.require()
    name = f"away-{request.param}"
    with running_cluster([request.param] * 3, tmp_path_factory.mktemp(name), f"{zookeeper}/{name}", SETTINGS) as made:
        yield made


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """All of them run at the start of a test."""
    come_back(shared, *(broker for broker in shared.brokers if broker not in shared.running))
    return shared


def eventually(condition: Callable[[], bool], what: object, timeout_ms: int = 120_000) -> None:
    def holds() -> bool:
        with contextlib.suppress(OSError, ApiError, KafkaException, KeyError):
            return condition()
        return False

    assert wait_until(holds, CLOCK, timeout_ms, 100), f"{what} did not happen"


def partition_of(broker: Broker, topic: str, partition: int = 0) -> MetadataResponsePartition:
    """The partition as one broker tells it. Raises KeyError when it does not know it."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = wire.call(broker, request, 12).topics
    entries: dict[int, MetadataResponsePartition] = {entry.partition_index: entry for entry in found.partitions}
    return entries[partition]


def everywhere(cluster: Cluster, topic: str, leader: int, isr: set[int], partition: int = 0) -> None:
    """Every running broker comes to tell this leader and this ISR."""
    seen: dict[int, object] = {}

    def so(broker: Broker) -> bool:
        entry = partition_of(broker, topic, partition)
        seen[broker.broker_id] = entry
        return entry.leader_id == leader and set(entry.isr_nodes) == isr

    eventually(lambda: all(so(broker) for broker in cluster.running), (topic, partition, leader, isr, seen))


def is_known(broker: Broker, topic: str) -> bool:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = wire.call(broker, request, 12).topics
    return ErrorCode.of(found.error_code) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def admin_of(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": ",".join(broker.address for broker in cluster.running), **QUIET})


def create(cluster: Cluster, assignments: Mapping[str, list[list[int]]]) -> None:
    """Topics with these replicas, in sync."""
    new = [NewTopic(name, len(lists), replica_assignment=lists) for name, lists in assignments.items()]
    ask_controller(cluster, lambda admin: admin.create_topics(new, operation_timeout=30))
    for name in assignments:
        wait_in_sync(cluster, name)


def append(broker: Broker, topic: str, *names: str, partition: int = 0) -> int:
    """The offset of the first record."""
    answer = wire.produce(broker, topic, wire.batch([name.encode() for name in names]), partition=partition)
    assert ErrorCode.of(answer.error_code) is NONE, ErrorCode.of(answer.error_code)
    return answer.base_offset


def elect(cluster: Cluster, election: int, topics: list[str] | None, partitions: int = 1) -> dict[str, ErrorCode]:
    """The outcome for partition 0 of each topic, as the controller answers."""
    asked = None if topics is None else [TopicPartitions(topic=name, partitions=[0]) for name in topics]
    request = ElectLeadersRequest(election_type=election, topic_partitions=asked, timeout_ms=20_000)
    with cluster.client() as client:
        answer = client.call_controller(request)
    assert answer.error_code == 0
    return {
        result.topic: ErrorCode.of(result.partition_result[0].error_code) for result in answer.replica_election_results
    }


def controller_of(broker: Broker) -> int:
    return int(wire.call(broker, MetadataRequest(topics=[]), 12).controller_id)


def stop(broker: Broker) -> None:
    """Controlled shutdown; a JVM that a signal ends tells so."""
    assert broker.stop() == (0 if broker.kind == "odradek" else 128 + signal.SIGTERM)


def come_back(cluster: Cluster, *brokers: Broker) -> None:
    for broker in brokers:
        broker.start()
    cluster.wait_ready()


def test_unclean_elections(cluster: Cluster) -> None:
    first, second = cluster.brokers[:2]
    one, two, three = (broker.broker_id for broker in cluster.brokers)
    off, config, asked, alive, lone = (wire.fresh_name(name) for name in ("off", "config", "asked", "alive", "lone"))
    lists = [[one, two]]
    create(cluster, {off: lists, config: lists, asked: lists, alive: [[three, two]], lone: [[one]]})
    for name in (off, config, asked):
        append(first, name, *SAME)
    stop(second)
    for name in (off, config, asked):
        everywhere(cluster, name, one, {one})
        assert append(first, name, "only", "on", "the", "first") == 2
    stop(first)
    come_back(cluster, second)

    # The one that was in sync last is away: no leader, whoever else is there.
    for name in (off, config, asked):
        everywhere(cluster, name, -1, {one})
        assert partition_of(second, name).error_code == ErrorCode.LEADER_NOT_AVAILABLE
        answer = wire.produce(second, name, wire.batch([b"no"]))
        assert ErrorCode.of(answer.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    unknown = wire.fresh_name("unknown")
    assert elect(cluster, PREFERRED, [off, lone, alive, unknown]) == {
        off: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        lone: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        alive: ErrorCode.ELECTION_NOT_NEEDED,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    everywhere(cluster, off, -1, {one})

    # By topic config: the controller does it as soon as it hears of it.
    entry = ConfigEntry("unclean.leader.election.enable", "true", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, config, incremental_configs=[entry])
    admin = admin_of(cluster)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    everywhere(cluster, config, two, {two})
    # By request: for the partitions it names, and where there is somebody to elect.
    assert elect(cluster, UNCLEAN, [asked, lone, alive, unknown]) == {
        asked: NONE,
        lone: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        alive: ErrorCode.ELECTION_NOT_NEEDED,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    everywhere(cluster, asked, two, {two})
    everywhere(cluster, off, -1, {one})
    with zookeeper_client(cluster.zookeeper) as zookeeper:
        for name in (asked, config):
            state = json.loads(zookeeper.get(f"/brokers/topics/{name}/partitions/0/state")[0])
            assert (state["leader"], state["isr"], state.get("leader_recovery_state")) == (two, [two], 1)
    # What the first had alone is lost there, and offsets are used again.
    for name in (config, asked):
        assert append(second, name, "new", "leader") == 2

    come_back(cluster, first)
    for name in (off, config, asked):
        wait_in_sync(cluster, name)
    everywhere(cluster, off, one, {one, two})
    everywhere(cluster, asked, two, {one, two})
    with zookeeper_client(cluster.zookeeper) as zookeeper:
        state = json.loads(zookeeper.get(f"/brokers/topics/{asked}/partitions/0/state")[0])
        assert "leader_recovery_state" not in state
    # All partitions: those that need nothing are left out.
    assert elect(cluster, PREFERRED, None) == {config: NONE, asked: NONE}
    everywhere(cluster, asked, one, {one, two})
    assert elect(cluster, PREFERRED, None) == {}
    assert elect(cluster, PREFERRED, [asked]) == {asked: ErrorCode.ELECTION_NOT_NEEDED}
    assert append(first, asked, "last") == 4
    common = [name.encode() for name in SAME]
    contents = {
        off: [*common, b"only", b"on", b"the", b"first"],
        config: [*common, b"new", b"leader"],
        asked: [*common, b"new", b"leader", b"last"],
    }
    for name, values in contents.items():
        assert read_back(cluster, name, 1) == {0: values}
    same_on(cluster, list(contents), [first, second])


def same_on(cluster: Cluster, topics: list[str], brokers: list[Broker], partition: int = 0) -> None:
    """Replicas come to have the same bytes."""
    for name in topics:
        eventually(
            lambda name=name: len({log_content(broker, name, partition) for broker in brokers}) == 1,  # type: ignore[misc]
            f"{name}: same bytes",
        )


def write_assignment(zookeeper: KazooClient, topic: str, lists: dict[str, list[int]]) -> None:
    """A topic made or extended by hand; an id that it has is kept."""
    path = f"/brokers/topics/{topic}"
    try:
        content = json.loads(zookeeper.get(path)[0])
    except NoNodeError:
        content = {"version": 2, "partitions": lists, "adding_replicas": {}, "removing_replicas": {}}
        zookeeper.create(path, json.dumps(content).encode())
        return
    content["partitions"].update(lists)
    zookeeper.set(path, json.dumps(content).encode())


def topic_id(zookeeper: KazooClient, topic: str) -> str:
    return str(json.loads(zookeeper.get(f"/brokers/topics/{topic}")[0])["topic_id"])


def reassign(cluster: Cluster, topic: str, replicas: list[int]) -> None:
    """Move partition 0 and wait until that is done."""
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[partition])], timeout_ms=30_000
    )
    with cluster.client() as client:
        answer = client.call_controller(request)
    assert answer.error_code == 0
    assert answer.responses[0].partitions[0].error_code == 0
    eventually(
        lambda: set(partition_of(cluster.running[0], topic).replica_nodes) == set(replicas), f"reassignment of {topic}"
    )


def test_topics_change_while_a_broker_is_away(cluster: Cluster) -> None:
    first, second, away = cluster.brokers
    ids = one, two, three = [broker.broker_id for broker in cluster.brokers]
    grown, dropped, again, trimmed = (wire.fresh_name(name) for name in ("grown", "dropped", "again", "trimmed"))
    create(cluster, {grown: [ids], dropped: [ids], again: [ids], trimmed: [ids]})
    for name in (grown, dropped, again, trimmed):
        append(first, name, *SAME)
    wait_replicated(cluster, again, 2)
    stop(away)
    old_content = log_content(away, again, 0)
    append(first, trimmed, *(f"r{number}" for number in range(8)))

    with zookeeper_client(cluster.zookeeper) as zookeeper:
        # New partitions, one of them with no replica that lives.
        write_assignment(zookeeper, grown, {"1": [three, one, two], "2": [three]})
        everywhere(cluster, grown, one, {one, two}, 1)
        append(first, grown, "in the new partition", partition=1)
        # Deleted: it is gone for clients; the replica that is away keeps the name.
        delete_topic(cluster, dropped)
        admin = admin_of(cluster)
        eventually(lambda: not any(is_known(broker, dropped) for broker in (first, second)), "deletion")
        assert zookeeper.exists(f"/brokers/topics/{dropped}") is not None
        with pytest.raises(KafkaException) as refused:
            admin.create_topics([NewTopic(dropped, 1, 1)])[dropped].result(30)
        assert refused.value.args[0].name() == "TOPIC_ALREADY_EXISTS"
        with pytest.raises(KafkaException) as refused:
            admin.create_partitions([NewPartitions(dropped, 2)])[dropped].result(30)
        assert refused.value.args[0].name() == "TOPIC_EXCEPTION"
        assert elect(cluster, PREFERRED, [dropped]) == {dropped: ErrorCode.INVALID_TOPIC_EXCEPTION}
        for broker in (first, second):
            eventually(lambda broker=broker: not (broker.data / f"{dropped}-0").exists(), "its files")  # type: ignore[misc]
        # Another topic with the name of an old one, of which the broker still has a replica.
        reassign(cluster, again, [one, two])
        old_id = topic_id(zookeeper, again)
        delete_topic(cluster, again)
        eventually(lambda: zookeeper.exists(f"/brokers/topics/{again}") is None, "deletion")
        eventually(lambda: again not in zookeeper.get_children("/admin/delete_topics"), "end of what asked for it")
        write_assignment(zookeeper, again, {"0": [three, one, two]})
        everywhere(cluster, again, one, {one, two})
        assert topic_id(zookeeper, again) != old_id
        assert append(first, again, "another", "topic", "altogether") == 0
        # Records that the broker has are deleted: dead replicas hold nothing back.
        partition = DeleteRecordsPartition(partition_index=0, offset=6)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=trimmed, partitions=[partition])], timeout_ms=20_000
        )
        deleted = wire.call(first, request, 2).topics[0].partitions[0]
        assert (deleted.error_code, deleted.low_watermark) == (0, 6)

        come_back(cluster, away)
        wait_in_sync(cluster, grown)
        everywhere(cluster, grown, one, set(ids), 1)
        everywhere(cluster, grown, three, {three}, 2)
        assert append(away, grown, "first of all", partition=2) == 0
        eventually(lambda: zookeeper.exists(f"/brokers/topics/{dropped}") is None, "end of the deletion")
        eventually(lambda: zookeeper.get_children("/admin/delete_topics") == [], "end of what asked for it")
        eventually(lambda: not (away.data / f"{dropped}-0").exists(), "deletion on the broker that was away")
    # The log restarts where the others begin.
    wait_in_sync(cluster, trimmed)
    eventually(lambda: wire.fetch(away, trimmed, 6).log_start_offset == 6, "log start")
    assert [record.value for record in wire.records_of(wire.fetch(away, trimmed, 6))][-1] == b"r7"
    # The old data does not become part of the new topic: not in sync, not served, and not destroyed either.
    append(first, again, "more")
    everywhere(cluster, again, one, {one, two})
    answer = wire.fetch(away, again, 0)
    assert ErrorCode.of(answer.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not wire.records_of(answer)
    assert read_back(cluster, again, 1) == {0: [b"another", b"topic", b"altogether", b"more"]}
    assert elect(cluster, PREFERRED, [again]) == {again: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert log_content(away, again, 0) == old_content
    same_on(cluster, [again], [first, second])

    # A deletion takes the old data along. The names are free again, and what they held before is not there.
    delete_topic(cluster, again)
    with zookeeper_client(cluster.zookeeper) as zookeeper:
        eventually(lambda: zookeeper.exists(f"/brokers/topics/{again}") is None, "deletion")
        eventually(lambda: zookeeper.get_children("/admin/delete_topics") == [], "end of what asked for it")
    create(cluster, {dropped: [ids], again: [ids]})
    for name in (dropped, again):
        assert append(first, name, "fresh") == 0
        assert read_back(cluster, name, 1) == {0: [b"fresh"]}
    same_on(cluster, [grown, dropped, again], cluster.brokers)
    same_on(cluster, [grown], cluster.brokers, 1)


def wait_replicated(cluster: Cluster, topic: str, end: int) -> None:
    """Until every replica knows that so much is committed."""
    eventually(
        lambda: all(wire.fetch(broker, topic, 0).high_watermark == end for broker in cluster.running),
        f"{topic} replicated",
    )


def test_the_controller_znode_changed_by_hand_under_load(cluster: Cluster) -> None:
    """It may be deleted or overwritten at any time: one controller again, the old one silent, clients see nothing."""
    kind = cluster.brokers[0].kind
    topic = wire.fresh_name("steady")
    ids = [broker.broker_id for broker in cluster.brokers]
    create(cluster, {topic: [ids, ids[1:] + ids[:1], ids[2:] + ids[:2]]})
    load = IdempotentLoad(cluster.bootstrap, topic, 3)
    reader = Reader(cluster.bootstrap, topic, 3)
    load.wait_progress()
    with zookeeper_client(cluster.zookeeper) as zookeeper:
        for step in ("deleted", "deleted at once again", "named another", "not readable"):
            before, epoch = controller_znode(zookeeper)
            other = next(number for number in ids if number != before)
            if step.startswith("deleted"):
                zookeeper.delete("/controller")
            else:
                named = {"version": 2, "brokerid": other, "timestamp": "1", "kraftControllerEpoch": -1}
                zookeeper.set("/controller", json.dumps(named).encode() if step == "named another" else b"{")
                if kind == "kafka":
                    # Its controllers resign, but nobody takes over before the znode is gone.
                    eventually(lambda: refuses_controller_work(cluster.brokers[before], topic), "resignation")  # noqa: B023
                    zookeeper.delete("/controller")
            eventually(lambda: controller_znode(zookeeper)[1] > epoch, f"election after: {step}")  # noqa: B023
            if step == "deleted":
                continue
            load.wait_progress(20)
            one_controller(cluster, zookeeper, topic, step)
    load.finish()
    wait_in_sync(cluster, topic)
    read = read_back(cluster, topic, 3)
    load.check(read)
    reader.finish(read)


def controller_znode(zookeeper: KazooClient) -> tuple[int, int]:
    """Broker id in `/controller` (-1: nobody) and the controller epoch."""
    try:
        named = int(json.loads(zookeeper.get("/controller")[0])["brokerid"])
    except (NoNodeError, ValueError, KeyError):
        named = -1
    return named, int(zookeeper.get("/controller_epoch")[0])


def refuses_controller_work(broker: Broker, topic: str) -> bool:
    asked = [TopicPartitions(topic=topic, partitions=[0])]
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=asked, timeout_ms=5_000)
    answer = wire.call(broker, request, 2)
    assert answer.error_code == 0
    (result,) = answer.replica_election_results[0].partition_result
    return ErrorCode.of(result.error_code) is ErrorCode.NOT_CONTROLLER


def one_controller(cluster: Cluster, zookeeper: KazooClient, topic: str, step: str) -> None:
    """All name the same one, it does the work, the others refuse it, and ZooKeeper shows its epoch alone."""

    def agreed() -> bool:
        controller, _ = controller_znode(zookeeper)
        return controller >= 0 and all(
            controller_of(broker) == controller
            and refuses_controller_work(broker, topic) == (broker.broker_id != controller)
            for broker in cluster.brokers
        )

    eventually(agreed, f"one controller after: {step}")
    controller, epoch = controller_znode(zookeeper)
    fresh = wire.fresh_name("work")
    create(cluster, {fresh: [[broker.broker_id for broker in cluster.brokers]]})
    state: Any = json.loads(zookeeper.get(f"/brokers/topics/{fresh}/partitions/0/state")[0])
    assert state["controller_epoch"] == epoch, step
    assert controller_znode(zookeeper) == (controller, epoch), step


def test_replicas_are_sound_at_the_end(shared: Cluster) -> None:
    """Runs last: after all that, every log directory verifies."""
    shared.stop()
    check_replicas(shared, {})
