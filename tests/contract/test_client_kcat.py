"""kcat: list, produce and consume with headers, keys, null values, every codec and acks; 100,000 lines."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from typing import Any

import pytest

from tests.support import wire
from tests.support.cluster import Cluster
from tests.support.workload import ACKS, CODECS

RECORDS = {"odradek": 100_000, "kafka": 6_000}
TIMEOUT_S = 120


def kcat(cluster: Cluster, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run kcat, return what it prints. Skips where it is not installed; in CI it must be."""
    program = shutil.which("kcat")
    if program is None:
        if os.environ.get("ODRADEK_REQUIRE_REFERENCE") == "1":
            pytest.fail("kcat is required: apt-get install kcat")
        pytest.skip("kcat is not installed: apt-get install kcat")
    done = subprocess.run(
        [program, "-b", cluster.bootstrap, *arguments], input=stdin, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def consume(cluster: Cluster, topic: str, *arguments: str) -> list[dict[str, Any]]:
    """All records of a topic as kcat's JSON."""
    out = kcat(cluster, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J", *arguments)
    return [json.loads(line) for line in out.splitlines()]


def test_list(cluster: Cluster) -> None:
    topic = wire.create_topic(cluster, partitions=3)
    shown = json.loads(kcat(cluster, "-L", "-J"))
    assert [(b["id"], b["name"]) for b in shown["brokers"]] == [(0, cluster.brokers[0].address)]
    assert shown["controllerid"] == 0
    (found,) = [t for t in shown["topics"] if t["topic"] == topic]
    assert [(p["partition"], p["leader"], p["isrs"]) for p in found["partitions"]] == [
        (number, 0, [{"id": 0}]) for number in range(3)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_keys_headers_and_null_values(cluster: Cluster, codec: str) -> None:
    topic = wire.create_topic(cluster)
    lines = b"k1:v1\nk2:\n:v3\nkey four:value: with: separators\n" + b"long:" + b"x" * 20_000 + b"\n"
    kcat(
        cluster,
        "-P",
        "-t",
        topic,
        "-p",
        "0",
        "-K",
        ":",
        "-Z",
        "-H",
        "first=1",
        "-H",
        "second=b c",
        "-z",
        codec,
        stdin=lines,
    )
    found = consume(cluster, topic)
    assert [(r["offset"], r["key"], r["payload"]) for r in found] == [
        (0, "k1", "v1"),
        (1, "k2", None),
        (2, None, "v3"),
        (3, "key four", "value: with: separators"),
        (4, "long", "x" * 20_000),
    ]
    assert all(r["headers"] == ["first", "1", "second", "b c"] for r in found)
    assert {r["tstype"] for r in found} == {"create"}


def test_a_topic_is_made_by_producing_to_it(cluster: Cluster) -> None:
    topic = wire.fresh_name("auto")
    kcat(cluster, "-P", "-t", topic, stdin=b"hello\n")
    assert [r["payload"] for r in consume(cluster, topic)] == ["hello"]


def test_offsets_and_times(cluster: Cluster) -> None:
    topic = wire.create_topic(cluster)
    kcat(cluster, "-P", "-t", topic, "-p", "0", stdin=b"".join(b"%d\n" % n for n in range(100)))
    start = kcat(cluster, "-C", "-t", topic, "-p", "0", "-o", "97", "-e", "-q")
    assert start.split() == [b"97", b"98", b"99"]
    assert kcat(cluster, "-C", "-t", topic, "-p", "0", "-o", "-2", "-e", "-q").split() == [b"98", b"99"]
    assert kcat(cluster, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-c", "3", "-q").split() == [b"0", b"1", b"2"]
    assert kcat(cluster, "-Q", "-t", f"{topic}:0:-1").split()[-2:] == [b"offset", b"100"]


@pytest.mark.parametrize("codec", CODECS)
def test_many_lines_of_mixed_sizes(cluster: Cluster, codec: str) -> None:
    topic = wire.create_topic(cluster, partitions=len(ACKS))
    chance = random.Random(codec)
    source = "".join(chance.choices("abcdefghij ", k=1_000_000))
    wanted = []
    for partition, acks in enumerate(ACKS):
        lines = []
        for number in range(RECORDS[cluster.brokers[0].kind] // len(CODECS) // len(ACKS)):
            size = chance.choice([0, 1, 10, 100, 300]) if number % 500 else chance.randrange(900 * 1024)
            start = chance.randrange(len(source) - size)
            lines.append(f"{number}={source[start : start + size]}".encode())
        data = b"\n".join(lines) + b"\n"
        options = [
            "-X",
            f"acks={acks}",
            "-X",
            "linger.ms=20",
            "-X",
            "message.max.bytes=1000000",
            "-X",
            "max.in.flight=1",
        ]
        kcat(cluster, "-P", "-t", topic, "-p", str(partition), "-z", codec, *options, stdin=data)
        wire.wait_for_end(cluster.brokers[0], topic, len(lines), partition=partition)
        wanted.append(data)
    for partition, data in enumerate(wanted):
        found = kcat(
            cluster, "-C", "-t", topic, "-p", str(partition), "-o", "beginning", "-e", "-q", "-X", "check.crcs=true"
        )
        assert found == data
