"""Apache Kafka's own shell tools against both kinds of broker: the same lines, the same exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from network.protocol.uuids import to_text
from tests.reference import kafka
from tests.support import wire
from tests.support.cluster import Cluster

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"


def tool(cluster: Cluster, main_class: str, *arguments: str, stdin: str | None = None, code: int = 0) -> str:
    """Run a tool; what it prints on standard output."""
    done = kafka.run_tool(main_class, "--bootstrap-server", cluster.bootstrap, *arguments, stdin=stdin)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + (done.stderr if code else "")


def test_topics(cluster: Cluster) -> None:
    name = wire.fresh_name()
    made = tool(cluster, TOPICS, "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=3600000")
    assert made == f"Created topic {name}.\n"
    again = tool(cluster, TOPICS, "--create", "--topic", name, code=1)
    assert f"Error while executing topic command : Topic '{name}' already exists." in again
    wire.wait_for_leaders(cluster, name, 2)
    with cluster.client() as client:
        topic_id = to_text(client.topic(name).topic_id)
    described = tool(cluster, TOPICS, "--describe", "--topic", name)
    # Defaults of the test cluster that differ from Kafka's appear as configs of the topic, too.
    head, *lines = [line.rstrip() for line in described.splitlines()]
    assert head.startswith(f"Topic: {name}\tTopicId: {topic_id}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: ")
    assert "retention.ms=3600000" in head
    assert lines == [
        f"\tTopic: {name}\tPartition: {n}\tLeader: 0\tReplicas: 0\tIsr: 0\tElr: N/A\tLastKnownElr: N/A" for n in (0, 1)
    ]
    assert tool(cluster, TOPICS, "--alter", "--topic", name, "--partitions", "3") == ""
    wire.wait_for_leaders(cluster, name, 3)
    listed = tool(cluster, TOPICS, "--list").splitlines()
    assert name in listed
    assert listed == sorted(listed)
    assert tool(cluster, TOPICS, "--delete", "--topic", name) == ""


def test_records_and_offsets(cluster: Cluster, tmp_path: Path) -> None:
    name = wire.create_topic(cluster, partitions=1)
    tool(cluster, "kafka.tools.ConsoleProducer", "--topic", name, stdin="one\ntwo\nthree\n")
    consumer = ["--topic", name, "--partition", "0", "--offset", "1", "--max-messages", "2", "--timeout-ms", "20000"]
    shown = tool(cluster, "org.apache.kafka.tools.consumer.ConsoleConsumer", *consumer)
    assert shown == "two\nthree\n"
    assert tool(cluster, GET_OFFSETS, "--topic", name) == f"{name}:0:3\n"
    wanted = tmp_path / "delete.json"
    wanted.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "offset": 2}]}), encoding="utf-8"
    )
    deleted = tool(cluster, "org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert deleted.splitlines() == [
        "Executing records delete operation",
        "Records delete operation completed:",
        f"partition: {name}-0\tlow_watermark: 2",
    ]
    assert tool(cluster, GET_OFFSETS, "--topic", name, "--time", "-2") == f"{name}:0:2\n"


def test_configs(cluster: Cluster) -> None:
    name = wire.create_topic(cluster)
    entity = ["--entity-type", "topics", "--entity-name", name]
    changed = tool(
        cluster, CONFIGS, "--alter", *entity, "--add-config", "retention.bytes=104857600,segment.bytes=1048576"
    )
    assert changed == f"Completed updating config for topic {name}.\n"
    described = tool(cluster, CONFIGS, "--describe", *entity)
    assert described.splitlines()[0] == f"Dynamic configs for topic {name} are:"
    assert re.search(
        r"^  segment\.bytes=1048576 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:segment\.bytes=1048576, "
        r"DEFAULT_CONFIG:log\.segment\.bytes=1073741824\}$",
        described,
        re.MULTILINE,
    )
    unknown = tool(cluster, CONFIGS, "--alter", *entity, "--add-config", "no.such=1", code=1)
    assert "InvalidConfigurationException: Unknown topic config name: no.such" in unknown
    small = tool(cluster, CONFIGS, "--alter", *entity, "--add-config", "segment.bytes=1", code=1)
    assert "Invalid value 1 for configuration segment.bytes: Value must be at least 14" in small


def test_what_the_brokers_say_of_themselves(cluster: Cluster) -> None:
    (broker,) = cluster.brokers
    name = wire.create_topic(cluster)
    wire.produce(broker, name, wire.batch([b"v"]))
    versions = tool(cluster, "kafka.admin.BrokerApiVersionsCommand").splitlines()
    assert versions[0] == f"{broker.address} (id: 0 rack: null) -> ("
    for line in (
        "Produce(0): 0 to 11 [usable: 11]",
        "Fetch(1): 0 to 17 [usable: 17]",
        "Metadata(3): 0 to 12 [usable: 12]",
    ):
        assert f"\t{line}," in versions
    assert re.fullmatch(
        r"Cluster ID: [\w-]{22}\n",
        kafka.run_tool(
            "org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", cluster.bootstrap
        ).stdout,
    )
    shown = tool(
        cluster, "org.apache.kafka.tools.LogDirsCommand", "--describe", "--broker-list", "0", "--topic-list", name
    ).splitlines()
    assert shown[0] == "Querying brokers for log directories information"
    (directory,) = json.loads(shown[2])["brokers"][0]["logDirs"]
    assert (directory["logDir"], directory["error"]) == (str(broker.data), None)
    (partition,) = directory["partitions"]
    assert (partition["partition"], partition["offsetLag"], partition["isFuture"]) == (f"{name}-0", 0, False)
    assert 60 < partition["size"] < 100


def test_the_performance_tool(cluster: Cluster) -> None:
    name = wire.create_topic(cluster)
    done = kafka.run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        "--topic",
        name,
        "--num-records",
        "5000",
        "--record-size",
        "200",
        "--throughput",
        "-1",
        "--producer-props",
        f"bootstrap.servers={cluster.bootstrap}",
        "acks=all",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("5000 records sent, ")
    assert wire.list_offset(cluster.brokers[0], name, -1).offset == 5000
