"""The operator's commands on four real brokers in two racks, beside Kafka's own tools (about 3 minutes)."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from broker.cli.errors import CommandError
from broker.cli.main import odradek
from broker.cli.reassignment_files import to_json
from broker.cli.replica_directories import Place, Replica, places
from broker.cli.replica_sizes import sizes_on
from broker.dev.polling import wait_until
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.client.cluster_metadata import PartitionMetadata
from network.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from spark_jobs.jobs import reassignment_plan
from tests.reference import kafka
from tests.support.cluster import CLOCK, Broker, Cluster, running_cluster
from tests.support.zookeeper import zookeeper_client

RACKS = {0: "left", 1: "left", 2: "right", 3: "right"}
WAIT_MS = 60_000
REASSIGN_TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECTION_TOOL = "org.apache.kafka.tools.LeaderElectionCommand"


@pytest.fixture(scope="module")
def cluster(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"auto.leader.rebalance.enable": "false", "auto.create.topics.enable": "false"}
    directory = tmp_path_factory.mktemp("operator")
    with running_cluster(
        ["odradek"] * len(RACKS),
        directory,
        f"{zookeeper}/operator",
        settings,
        {
            broker: {"broker.rack": rack, "log.dirs": f"{directory / f'{broker}-x'},{directory / f'{broker}-y'}"}
            for broker, rack in RACKS.items()
        },
    ) as cluster:
        yield cluster


def run(cluster: Cluster, *words: object) -> Result:
    """`odradek WORDS` with its output; a CommandError comes out."""
    arguments = [str(word) for word in words] + ["--bootstrap-server", cluster.bootstrap]
    return CliRunner().invoke(odradek, arguments, catch_exceptions=False)


def output(cluster: Cluster, *words: object) -> str:
    """What a command that succeeds prints."""
    result = run(cluster, *words)
    assert result.exit_code == 0, result.output
    return result.stdout


def create(cluster: Cluster, topic: str, replicas: list[list[int]], **configs: str) -> None:
    """A topic with replicas by hand."""
    wanted = CreatableTopic(
        name=topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in enumerate(replicas)],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    with cluster.client() as client:
        (result,) = client.call_controller(CreateTopicsRequest(topics=[wanted], timeout_ms=15_000)).topics
        assert result.error_code == 0, result.error_message
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)

        def known(broker: Broker) -> bool:
            (found,) = client.call_broker(broker.broker_id, asked).topics
            return found.error_code == 0 and all(not p.error_code for p in found.partitions)

        assert wait_until(lambda: all(map(known, cluster.running)), CLOCK, WAIT_MS), topic


def partitions(cluster: Cluster, topic: str) -> dict[int, PartitionMetadata]:
    with cluster.client() as client:
        return client.topic(topic, refresh=True).partitions


def told_by(broker: Broker, topic: str) -> dict[int, PartitionMetadata]:
    """The partitions as this very broker tells them; none of a topic that it does not know."""
    with ClusterClient(broker.address, "test", CLOCK) as client:
        return client.metadata([topic]).topics[topic].partitions


def wait_for(cluster: Cluster, topic: str, condition: Callable[[dict[int, PartitionMetadata]], bool]) -> None:
    """Until the metadata of a topic is so on every running broker: the next command may ask any of them."""
    seen: list[object] = []

    def holds() -> bool:
        seen.clear()
        for broker in cluster.running:
            found = told_by(broker, topic)
            seen.append(found)
            if not found or not condition(found):
                return False
        return True

    assert wait_until(holds, CLOCK, WAIT_MS), seen


def wait_replicas(cluster: Cluster, topic: str, condition: Callable[[dict[int, list[int]]], bool]) -> None:
    """Until every running broker tells such replicas."""
    wait_for(cluster, topic, lambda found: condition({number: each.replicas for number, each in found.items()}))


def wait_gone(cluster: Cluster, topic: str) -> None:
    """Until no running broker knows the topic."""
    assert wait_until(lambda: not any(told_by(broker, topic) for broker in cluster.running), CLOCK, WAIT_MS), topic


def move_leader_away(cluster: Cluster, topic: str) -> None:
    """Restart the broker that leads, so that another one does."""
    leader = cluster.brokers[partitions(cluster, topic)[0].leader]
    leader.stop()
    leader.start()
    cluster.wait_ready()
    wait_for(
        cluster,
        topic,
        lambda found: len(found[0].isr) == len(found[0].replicas) and found[0].leader != leader.broker_id,
    )


# -- topics, brokers list, elect-leaders -----------------------------------------------------------------------------


def test_brokers_are_listed_with_what_they_hold(cluster: Cluster) -> None:
    create(cluster, "held", [[1, 2]])
    wait_for(cluster, "held", lambda found: set(found[0].isr) == {1, 2})
    rows = [line.split() for line in output(cluster, "brokers", "list").splitlines()]
    assert rows[0][:3] == ["BROKER", "ADDRESS", "RACK"]
    assert [row[:3] for row in rows[1:]] == [
        [str(broker.broker_id), broker.address, RACKS[broker.broker_id]] for broker in cluster.brokers
    ]
    assert sum("controller" in row for row in rows) == 1


def test_a_broker_that_hangs_is_listed_all_the_same(cluster: Cluster) -> None:
    cluster.brokers[1].pause()
    try:
        result = run(cluster, "brokers", "list")
    finally:
        cluster.brokers[1].resume()
    assert result.exit_code == 0
    assert "broker 1 does not say how large its replicas are" in result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == ["0", "1", "2", "3"]
    cluster.wait_ready()


def test_under_replicated_partitions_are_found(cluster: Cluster) -> None:
    create(cluster, "lagging", [[1, 3], [1, 2]])
    in_sync(cluster, "lagging")
    output(cluster, "topics", "alter", "lagging", "--config", "retention.ms=60000")
    wait_for(cluster, "lagging", lambda found: len(found) == 2)
    assert output(cluster, "topics", "describe", "lagging", "--under-replicated") == ""
    cluster.brokers[3].stop()
    try:
        wait_for(cluster, "lagging", lambda found: found[0].isr == [1])
        text = output(cluster, "topics", "describe", "lagging", "--under-replicated")
        assert text == "\tTopic: lagging\tPartition: 0\tLeader: 1\tReplicas: 1,3\tIsr: 1\n"
        assert "3       (not running)" in output(cluster, "brokers", "list")
    finally:
        cluster.brokers[3].start()
        cluster.wait_ready()
    in_sync(cluster, "lagging")
    assert "retention.ms=60000" in output(cluster, "topics", "describe", "lagging")
    assert "Altered topic lagging." in output(cluster, "topics", "alter", "lagging", "--partitions", 3)


def test_preferred_leaders_by_our_command_and_by_kafkas(cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, "elected", [[3, 1]])
    create(cluster, "steady", [[0, 1]])
    wait_for(cluster, "elected", lambda found: set(found[0].isr) == {1, 3})
    assert output(cluster, "elect-leaders", "--topic", "elected") == "No election was needed for elected-0.\n"
    file = tmp_path / "elections.json"
    file.write_text(json.dumps({"partitions": [{"topic": name, "partition": 0} for name in ("elected", "steady")]}))

    move_leader_away(cluster, "elected")
    text = output(cluster, "elect-leaders", "--path-to-json", file)
    assert text == "Elected preferred leaders of elected-0.\nNo election was needed for steady-0.\n"
    wait_for(cluster, "elected", lambda found: found[0].leader == 3)

    move_leader_away(cluster, "elected")
    done = kafka.run_tool(
        ELECTION_TOOL, "--bootstrap-server", cluster.bootstrap, "--election-type", "preferred",
        "--path-to-json-file", str(file),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Successfully completed leader election (PREFERRED) for partitions elected-0" in done.stdout
    assert "Valid replica already elected for partitions steady-0" in done.stdout
    wait_for(cluster, "elected", lambda found: found[0].leader == 3)

    with pytest.raises(CommandError, match=r"none-0: .*UNKNOWN_TOPIC_OR_PARTITION"):
        run(cluster, "elect-leaders", "--topic", "none", "--partition", 0)
    for name in all_topics(cluster):
        in_sync(cluster, name)
    output(cluster, "elect-leaders", "--all")
    assert output(cluster, "elect-leaders", "--all") == "No election was needed.\n"


def test_an_unclean_election_brings_a_leader_back(cluster: Cluster) -> None:
    """The only replica in sync dies; the other one leads once somebody decides so."""
    create(cluster, "unclean", [[3, 2]])
    wait_for(cluster, "unclean", lambda found: set(found[0].isr) == {2, 3})
    first, second = cluster.brokers[3], cluster.brokers[2]
    second.stop()
    wait_for(cluster, "unclean", lambda found: found[0].isr == [3])
    first.stop()
    second.start()
    cluster.wait_ready()
    wait_for(cluster, "unclean", lambda found: found[0].leader == -1)
    try:
        with pytest.raises(CommandError, match=r"unclean-0: .*PREFERRED_LEADER_NOT_AVAILABLE"):
            run(cluster, "elect-leaders", "--topic", "unclean", "--partition", 0)
        text = output(cluster, "elect-leaders", "--type", "unclean", "--topic", "unclean", "--partition", 0)
        assert text == "Elected unclean leaders of unclean-0.\n"
        wait_for(cluster, "unclean", lambda found: found[0].leader == 2)
    finally:
        first.start()
        cluster.wait_ready()
    wait_for(cluster, "unclean", lambda found: set(found[0].isr) == {2, 3})


# -- reassign ----------------------------------------------------------------------------------------------------------


def fill(cluster: Cluster, topic: str, count: int, size: int = 1000) -> None:
    """Records of random bytes, round the partitions."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 20})
    numbers = sorted(partitions(cluster, topic))
    for number in range(count):
        producer.produce(topic, os.urandom(size), partition=numbers[number % len(numbers)])
        producer.poll(0)
    assert producer.flush(60) == 0


def read_back(cluster: Cluster, topic: str, count: int) -> set[bytes]:
    """All records of a topic."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "read-back", "enable.auto.commit": False})
    consumer.assign([Position(topic, number, 0) for number in partitions(cluster, topic)])
    found: set[bytes] = set()

    def complete() -> bool:
        found.update(message.value() for message in consumer.consume(500, timeout=1) if message.error() is None)  # type: ignore[misc]
        return len(found) >= count

    assert wait_until(complete, CLOCK, WAIT_MS), len(found)
    consumer.close()
    return found


def plan_file(path: Path, topic: str, replicas: dict[int, list[int]]) -> Path:
    path.write_text(to_json({TopicPartition(topic, number): ids for number, ids in replicas.items()}))
    return path


def assignments(text: str) -> list[dict[str, Any]]:
    """The JSON objects in an output, in order."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def replicas(cluster: Cluster, topic: str) -> dict[int, list[int]]:
    return {number: found.replicas for number, found in partitions(cluster, topic).items()}


def all_topics(cluster: Cluster) -> list[str]:
    with cluster.client() as client:
        return sorted(client.metadata().topics)


def in_sync(cluster: Cluster, topic: str) -> None:
    wait_for(cluster, topic, lambda found: all(len(p.isr) == len(p.replicas) for p in found.values()))


def are_even(found: dict[int, list[int]]) -> bool:
    """Whether each broker has two replicas."""
    return Counter(broker for ids in found.values() for broker in ids) == {0: 2, 1: 2, 2: 2, 3: 2}


def test_generate_execute_verify(cluster: Cluster, tmp_path: Path) -> None:
    """A topic that lies on one rack spreads over both."""
    create(cluster, "moved", [[0, 1], [1, 0], [0, 1], [1, 0]])
    fill(cluster, "moved", 400)
    before = read_back(cluster, "moved", 400)
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text('{"version": 1, "topics": [{"topic": "moved"}]}')
    text = output(cluster, "reassign", "generate", "--topics-to-move-json-file", topics, "--output", plan)
    current, proposed = assignments(text)
    assert proposed == json.loads(plan.read_text())
    assert [p["replicas"] for p in current["partitions"]] == [[0, 1], [1, 0], [0, 1], [1, 0]]

    assert "Started the reassignment of moved-0, moved-1, moved-2, moved-3." in output(
        cluster, "reassign", "execute", plan
    )
    assert wait_until(lambda: "progress" not in output(cluster, "reassign", "verify", plan), CLOCK, WAIT_MS)
    text = output(cluster, "reassign", "verify", plan)
    assert text.count("is completed.") == 4
    in_sync(cluster, "moved")
    wait_replicas(cluster, "moved", are_even)
    found = replicas(cluster, "moved")
    assert all({RACKS[broker] for broker in ids} == {"left", "right"} for ids in found.values())
    assert read_back(cluster, "moved", 400) == before
    assert output(cluster, "reassign", "list") == "No reassignment goes on.\n"

    output(cluster, "reassign", "generate", "--topic", "moved", "--output", plan)
    assert json.loads(plan.read_text())["partitions"] == []
    for words in (["execute", plan, "--wait"], ["verify", plan], ["cancel", plan]):
        assert output(cluster, "reassign", *words) == f"{plan} moves nothing.\n"


def test_what_execute_refuses(cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, "refused", [[0]])
    for wanted, reason in (
        ({0: [9]}, "brokers that do not run: 9"),
        ({1: [1]}, "there is no partition refused-1"),
    ):
        with pytest.raises(CommandError, match=reason):
            run(cluster, "reassign", "execute", plan_file(tmp_path / "plan.json", "refused", wanted))
    text = to_json({TopicPartition("refused", 0): [1]}).replace('"any"', '"/data"')
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(CommandError, match=r"refused: /data for refused-0 on broker 1: .*LOG_DIR_NOT_FOUND"):
        run(cluster, "reassign", "execute", tmp_path / "plan.json")
    with pytest.raises(CommandError, match="brokers that do not run: 17"):
        run(cluster, "reassign", "generate", "--topic", "refused", "--broker-list", "0,17")
    create(cluster, "wide", [[0, 1, 2]])
    with pytest.raises(CommandError, match="too few"):
        run(cluster, "reassign", "generate", "--topic", "wide", "--broker-list", "0,1")
    assert replicas(cluster, "refused") == {0: [0]}


RATE = 300_000  # bytes/s
LARGEST_FETCH = 1_048_576  # replica.fetch.max.bytes: what passes whole once it may


def limit_by_hand(cluster: Cluster, topic: str, side: str, broker: int) -> None:
    """Throttle only one side, with configs as any client sets them; it is in force when this returns."""
    admin = AdminClient({"bootstrap.servers": cluster.brokers[broker].address})
    for kind, name, key, value in (
        (ResourceType.TOPIC, topic, f"{side}.replication.throttled.replicas", f"0:{broker}"),
        (ResourceType.BROKER, str(broker), f"{side}.replication.throttled.rate", str(RATE)),
    ):
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)

    def applies() -> bool:
        # A broker takes changes in their order: the rate, which it shows only then, was the last one.
        own = ConfigResource(ResourceType.BROKER, str(broker))
        found = admin.describe_configs([own])[own].result(30).get(f"{side}.replication.throttled.rate")
        return found is not None and found.value == str(RATE)

    assert wait_until(applies, CLOCK, WAIT_MS), f"broker {broker} does not go by its limit"


def throttled_brokers(cluster: Cluster) -> list[str]:
    """Brokers that ZooKeeper has a rate for."""
    with zookeeper_client(cluster.zookeeper) as client:
        found = {name: client.get(f"/config/brokers/{name}")[0] for name in client.get_children("/config/brokers")}
    return sorted(name for name, data in found.items() if b"per.second" in data or b"throttled.rate" in data)


def bytes_on(cluster: Cluster, broker: int, topic: str) -> int:
    with cluster.client() as client:
        return sum(sizes_on(client, broker, [TopicPartition(topic, 0)]).values())


@pytest.mark.parametrize(("side", "source", "target"), [("both", 0, 1), ("leader", 2, 3), ("follower", 3, 2)])
def test_a_throttle_slows_a_reassignment_down(
    cluster: Cluster, tmp_path: Path, side: str, source: int, target: int
) -> None:
    """Never more than the rate and two fetches arrive, however fast the machine is; unlimited, all would be there.

    Each case has a broker to itself: a rate remembers what passed in the 11 s before.
    """
    topic = f"throttled-by-{side}"
    create(cluster, topic, [[source]])
    fill(cluster, topic, 120, 50_000)
    size = bytes_on(cluster, source, topic)
    plan = plan_file(tmp_path / "plan.json", topic, {0: [target]})
    if side == "leader":
        limit_by_hand(cluster, topic, "leader", source)
    elif side == "follower":
        limit_by_hand(cluster, topic, "follower", target)
    started = CLOCK.monotonic_ms()
    output(cluster, "reassign", "execute", plan, *(["--throttle", RATE] if side == "both" else []))
    moved = 0
    while not moved or CLOCK.monotonic_ms() - started < 6_000:
        moved = bytes_on(cluster, target, topic)
        allowed = RATE * (CLOCK.monotonic_ms() - started) / 1000 + 2 * LARGEST_FETCH
        assert moved <= allowed < size
        time.sleep(0.2)
    assert moved > 0
    assert "still in progress" in output(cluster, "reassign", "verify", plan)
    output(cluster, "reassign", "execute", plan, "--additional", "--throttle", 10**9, "--wait")
    wait_replicas(cluster, topic, lambda found: found == {0: [target]})
    assert len(read_back(cluster, topic, 120)) == 120
    # Nothing stays slow: the limits went with the end of the move.
    assert "throttled.replicas" not in output(cluster, "topics", "describe", topic)
    assert not throttled_brokers(cluster)


def test_a_reassignment_is_cancelled_half_way(cluster: Cluster, tmp_path: Path) -> None:
    """The limit lets one fetch pass, then nothing for a while, so nothing ends before it is cancelled."""
    create(cluster, "cancelled", [[0, 1], [1, 0]])
    fill(cluster, "cancelled", 160, 50_000)
    plan = plan_file(tmp_path / "plan.json", "cancelled", {0: [0, 3], 1: [3, 0]})
    other = plan_file(tmp_path / "other.json", "cancelled", {1: [2, 0]})
    output(cluster, "reassign", "execute", plan, "--throttle", 1)
    text = output(cluster, "reassign", "verify", plan)
    assert text.count("is still in progress.") == 2
    listed = output(cluster, "reassign", "list").splitlines()
    assert listed[0] == "cancelled-0: replicas 0,3,1, adding 3, removing 1"
    assert throttled_brokers(cluster) == ["0", "1", "3"]
    with pytest.raises(CommandError, match="cancelled-0, cancelled-1; --additional"):
        run(cluster, "reassign", "execute", other)
    output(cluster, "reassign", "execute", other, "--additional", "--throttle", 2)
    assert "cancelled-1 goes on, but to [2, 0]" in output(cluster, "reassign", "verify", plan)
    assert "Cancelled the reassignment of cancelled-0, cancelled-1." in output(cluster, "reassign", "cancel", plan)
    wait_for(cluster, "cancelled", lambda found: all(set(p.replicas) == {0, 1} for p in found.values()))
    assert output(cluster, "reassign", "list") == "No reassignment goes on.\n"
    assert output(cluster, "reassign", "cancel", plan) == "None of these reassignments goes on.\n"
    in_sync(cluster, "cancelled")
    assert len(read_back(cluster, "cancelled", 160)) == 160


def test_kafkas_tool_takes_our_plan_and_we_take_its(cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, "shared", [[0, 1], [0, 1]])
    fill(cluster, "shared", 100)
    ours = tmp_path / "ours.json"
    output(cluster, "reassign", "generate", "--topic", "shared", "--broker-list", "2,3", "--output", ours)

    def tool(*words: str) -> str:
        done = kafka.run_tool(REASSIGN_TOOL, "--bootstrap-server", cluster.bootstrap, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    text = tool("--reassignment-json-file", str(ours), "--execute", "--throttle", "100000000")
    assert "Successfully started partition reassignments for shared-0,shared-1" in text
    assert wait_until(lambda: "progress" not in output(cluster, "reassign", "verify", ours), CLOCK, WAIT_MS)
    text = tool("--reassignment-json-file", str(ours), "--verify")
    assert text.count("is completed.") == 2
    wait_replicas(cluster, "shared", lambda found: all(set(ids) == {2, 3} for ids in found.values()))

    topics, theirs = tmp_path / "topics.json", tmp_path / "theirs.json"
    topics.write_text('{"version": 1, "topics": [{"topic": "shared"}]}')
    text = tool("--topics-to-move-json-file", str(topics), "--broker-list", "0,2", "--generate")
    theirs.write_text(json.dumps(assignments(text)[1]))
    output(cluster, "reassign", "execute", theirs, "--wait")
    wait_replicas(cluster, "shared", lambda found: all(set(ids) == {0, 2} for ids in found.values()))
    assert tool("--reassignment-json-file", str(theirs), "--verify").count("is completed.") == 2
    assert len(read_back(cluster, "shared", 100)) == 100


def test_replicas_move_between_log_directories(cluster: Cluster, tmp_path: Path) -> None:
    """On the broker that has them, and to chosen ones of a broker that gets them."""
    create(cluster, "placed", [[1]])
    fill(cluster, "placed", 80, 50_000)
    replica, plan = Replica(TopicPartition("placed", 0), 1), tmp_path / "plan.json"
    x, y = cluster.brokers[1].settings["log.dirs"].split(",")

    def place() -> Place:
        with cluster.client() as client:
            return places(client, [replica])[replica]

    def write(brokers: list[int], directory: str) -> None:
        text = to_json({replica.tp: brokers})
        plan.write_text(text.replace('["any"', f'["{directory}"'))

    first = place().current
    other = y if first == x else x
    write([1], other)
    output(cluster, "reassign", "execute", plan, "--replica-alter-log-dirs-throttle", 1)
    assert f"Move of placed-0 on broker 1 to {other} is still in progress." in output(
        cluster, "reassign", "verify", plan
    )
    assert place() == Place(first, other)
    assert throttled_brokers(cluster) == ["1"]
    assert "Cancelled the moves between log directories of placed-0 on broker 1." in output(
        cluster, "reassign", "cancel", plan
    )
    assert place() == Place(first)
    output(cluster, "reassign", "execute", plan, "--replica-alter-log-dirs-throttle", 10**9, "--wait")
    assert place() == Place(other)
    assert not throttled_brokers(cluster)

    tool = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan)]
    done = kafka.run_tool(REASSIGN_TOOL, *tool, "--verify")
    assert "Reassignment of replica placed-0-1 completed successfully." in done.stdout
    write([1], first or "")
    done = kafka.run_tool(REASSIGN_TOOL, *tool, "--execute")
    assert done.returncode == 0, done.stderr
    assert wait_until(lambda: place() == Place(first), CLOCK, WAIT_MS)

    for directory in cluster.brokers[3].settings["log.dirs"].split(","):
        replica = Replica(replica.tp, 3)
        write([3], directory)
        output(cluster, "reassign", "execute", plan, "--wait")
        assert place() == Place(directory)
        write([1], first or "")
        output(cluster, "reassign", "execute", plan, "--wait")
    assert len(read_back(cluster, "placed", 80)) == 80


def test_the_plan_of_the_spark_job_can_be_executed(cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, "lopsided", [[0, 1], [0, 1], [0, 1], [0, 1]])
    fill(cluster, "lopsided", 200)
    plan = tmp_path / "plan.json"
    arguments = ["--bootstrap-server", cluster.bootstrap, "--topics", "lopsided", "--output", str(plan)]
    done = CliRunner().invoke(reassignment_plan.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "All reassignments are complete." in output(cluster, "reassign", "execute", plan, "--wait")
    wait_replicas(cluster, "lopsided", are_even)
    assert len(read_back(cluster, "lopsided", 200)) == 200


def test_a_broker_is_drained_and_safe_to_stop(cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, "drained", [[1, 2], [2, 3], [0, 2]])
    fill(cluster, "drained", 90)
    plan = tmp_path / "plan.json"
    plan.write_text(output(cluster, "brokers", "decommission", 2, "--dry-run"))
    assert all(2 not in p["replicas"] for p in json.loads(plan.read_text())["partitions"])
    result = run(cluster, "brokers", "decommission", 2, "--at-once", 2, "--throttle", 100_000_000)
    assert result.exit_code == 0, result.output
    assert "Broker 2 holds no replica any more. It is safe to stop" in result.stdout
    assert "broker 2: 2 partitions: " in result.stderr
    for topic in all_topics(cluster):
        wait_replicas(cluster, topic, lambda found: not any(2 in ids for ids in found.values()))
    assert {number: ids[0] for number, ids in replicas(cluster, "drained").items() if number != 1} == {0: 1, 2: 0}
    assert not throttled_brokers(cluster)
    cluster.brokers[2].stop()
    try:
        in_sync(cluster, "drained")
        assert len(read_back(cluster, "drained", 90)) == 90
        create(cluster, "everywhere", [[0, 1, 3]])
        with pytest.raises(CommandError, match=r"cannot leave: .* too few"):
            run(cluster, "brokers", "decommission", 3)
    finally:
        cluster.brokers[2].start()
        cluster.wait_ready()
    with pytest.raises(CommandError, match="there is no broker 17"):
        run(cluster, "brokers", "decommission", 17)


def test_a_broker_that_is_down_is_drained_if_others_have_its_records(cluster: Cluster) -> None:
    output(cluster, "brokers", "decommission", 2)
    create(cluster, "orphan", [[2, 1]])
    create(cluster, "alone", [[2]])
    fill(cluster, "orphan", 50)
    in_sync(cluster, "orphan")
    cluster.brokers[2].stop()
    try:
        wait_for(cluster, "alone", lambda found: found[0].leader == -1)
        with pytest.raises(CommandError, match=r"without leader: alone-0$"):
            run(cluster, "brokers", "decommission", 2)
        output(cluster, "topics", "delete", "alone")
        wait_gone(cluster, "alone")
        text = output(cluster, "brokers", "decommission", 2)
        assert text == "Broker 2 does not run, and no partition has a replica there.\n"
        wait_replicas(cluster, "orphan", lambda found: 2 not in found[0])
        in_sync(cluster, "orphan")
        assert len(read_back(cluster, "orphan", 50)) == 50
    finally:
        cluster.brokers[2].start()
        cluster.wait_ready()
