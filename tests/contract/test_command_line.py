"""``odradek topics``, ``produce`` and ``consume`` as a person uses them, against both kinds of broker."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.reference import kafka
from tests.support import wire
from tests.support.cluster import ROOT, Cluster, python_environment

TIMEOUT_S = 60


def odradek(cluster: Cluster, *arguments: str, stdin: bytes = b"", code: int = 0) -> str:
    """Run a command against the cluster; what it prints, standard error behind standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "broker", *arguments],
        input=stdin,
        capture_output=True,
        timeout=TIMEOUT_S,
        cwd=ROOT,
        env={**os.environ, **python_environment(), "ODRADEK_BOOTSTRAP_SERVER": cluster.bootstrap},
        check=False,
    )
    output = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == code, output
    return output


def test_the_life_of_a_topic(cluster: Cluster) -> None:
    name = wire.fresh_name()
    assert odradek(cluster, "topics", "create", name, "--partitions", "3", "--config", "retention.ms=1234") == (
        f"Created topic {name}.\n"
    )
    wire.wait_for_leaders(cluster, name, 3)
    assert name in odradek(cluster, "topics", "list").splitlines()
    head, *lines = odradek(cluster, "topics", "describe", name).splitlines()
    assert head.startswith(f"Topic: {name}\tTopicId: ")
    assert head.endswith("\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: retention.ms=1234")
    assert lines == [f"\tTopic: {name}\tPartition: {n}\tLeader: 0\tReplicas: 0\tIsr: 0" for n in range(3)]
    assert odradek(cluster, "topics", "alter", name, "--partitions", "4", "--delete-config", "retention.ms") == (
        f"Altered topic {name}.\n"
    )
    wire.wait_for_leaders(cluster, name, 4)
    assert "PartitionCount: 4" in odradek(cluster, "topics", "describe", name)
    assert odradek(cluster, "topics", "delete", name) == f"Deleted topic {name}.\n"
    for _ in range(200):
        if name not in odradek(cluster, "topics", "list").splitlines():
            break
        wire.pause()
    assert name not in odradek(cluster, "topics", "list").splitlines()


def test_mistakes_end_with_one_line_and_a_code(cluster: Cluster) -> None:
    name = wire.create_topic(cluster)
    taken = odradek(cluster, "topics", "create", name, code=1)
    assert taken.startswith(f"odradek: Topic '{name}' already exists. (TOPIC_ALREADY_EXISTS); ")
    assert odradek(cluster, "topics", "create", name, "--if-not-exists") == ""
    missing = wire.fresh_name()
    for arguments in (["topics", "describe", missing], ["topics", "delete", missing], ["topics", "alter", missing]):
        extra = ["--partitions", "2"] if "alter" in arguments else []
        shown = odradek(cluster, *arguments, *extra, code=1)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in shown
        assert shown.count("\n") == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in odradek(cluster, "consume", missing, "--timeout-ms", "500", code=1)
    assert odradek(cluster, "topics", "delete", missing, "--if-exists") == ""
    assert "INVALID_CONFIG" in odradek(cluster, "topics", "create", missing, "--config", "no.such=1", code=1)
    assert "KEY=VALUE" in odradek(cluster, "topics", "create", missing, "--config", "nonsense", code=2)
    assert "INVALID_PARTITIONS" in odradek(cluster, "topics", "alter", name, "--partitions", "1", code=1)
    assert "has no partition 7" in odradek(cluster, "produce", name, "--partition", "7", stdin=b"x\n", code=1)
    assert "no key separator" in odradek(cluster, "produce", name, "--key-separator", ":", stdin=b"x\n", code=1)


def test_nobody_answers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "broker", "topics", "list", "-b", "127.0.0.1:1"],
        capture_output=True,
        timeout=TIMEOUT_S,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(b"odradek: 127.0.0.1:1: ")
    assert done.stderr.count(b"\n") == 1


def test_lines_go_in_and_come_out(cluster: Cluster) -> None:
    name = wire.create_topic(cluster)
    lines = b"first\n\nk:v\n" + b"x" * 300_000 + b"\nno newline at the end"
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        shown = odradek(cluster, "produce", name, "--compression", codec, stdin=lines)
        assert shown == f"Produced 5 records to {name}.\n"
    found = odradek(cluster, "consume", name, "--from-beginning", "--max", "25")
    assert found.encode() == (lines + b"\n") * 5
    assert odradek(
        cluster, "consume", name, "--from-beginning", "--max", "26", "--timeout-ms", "1500", code=1
    ).endswith("odradek: only 25 of 26 records came\n")


def test_producing_makes_a_missing_topic(cluster: Cluster) -> None:
    name = wire.fresh_name("auto")
    assert odradek(cluster, "produce", name, stdin=b"hello\n") == f"Produced 1 records to {name}.\n"
    assert odradek(cluster, "consume", name, "--from-beginning", "--max", "1") == "hello\n"
    assert "INVALID_TOPIC_EXCEPTION" in odradek(cluster, "produce", "not legal", stdin=b"hello\n", code=1)


def test_keys_choose_the_partition_as_the_java_client_does(cluster: Cluster) -> None:
    ours = wire.create_topic(cluster, partitions=5)
    theirs = wire.create_topic(cluster, partitions=5)
    lines = "".join(f"key-{n}:value-{n}\n" for n in range(40))
    odradek(cluster, "produce", ours, "--key-separator", ":", stdin=lines.encode())
    done = kafka.run_tool(
        "kafka.tools.ConsoleProducer",
        "--bootstrap-server",
        cluster.bootstrap,
        "--topic",
        theirs,
        "--property",
        "parse.key=true",
        "--property",
        "key.separator=:",
        stdin=lines,
    )
    assert done.returncode == 0, done.stderr
    (broker,) = cluster.brokers
    for partition in range(5):
        mine, java = (
            [(r.key, r.value) for r in wire.records_of(wire.fetch(broker, topic, 0, partition=partition))]
            for topic in (ours, theirs)
        )
        assert mine == java
    shown = odradek(cluster, "consume", ours, "--from-beginning", "--max", "40", "--print-key", "--key-separator", ":")
    assert sorted(shown.splitlines()) == sorted(lines.splitlines())


def test_null_keys_and_values(cluster: Cluster) -> None:
    name = wire.create_topic(cluster)
    odradek(cluster, "produce", name, "--key-separator", ":", "--null-marker", "NULL", stdin=b"a:NULL\nNULL:b\n:\n")
    found = wire.records_of(wire.fetch(cluster.brokers[0], name, 0))
    assert [(r.key, r.value) for r in found] == [(b"a", None), (None, b"b"), (b"", b"")]
