"""Files of reassignments and elections: what is taken, and what is refused and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.cli.errors import CommandError
from broker.cli.reassignment_files import (
    WantedReplicas,
    by_topic,
    read_partitions,
    read_reassignment,
    read_topics,
    to_json,
)
from log.topic_partition import TopicPartition


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.json"


def test_what_is_written_can_be_read(file: Path) -> None:
    replicas = {TopicPartition("b", 0): [2, 1], TopicPartition("a-b", 11): [3]}
    file.write_text(to_json(replicas))
    assert read_reassignment(file) == {
        TopicPartition("a-b", 11): WantedReplicas((3,), ("any",)),
        TopicPartition("b", 0): WantedReplicas((2, 1), ("any", "any")),
    }


def test_the_text_is_kafkas_to_the_byte() -> None:
    text = '{"version":1,"partitions":[{"topic":"moved","partition":0,"replicas":[0,1],"log_dirs":["any","any"]}]}'
    assert to_json({TopicPartition("moved", 0): [0, 1]}) == text


def test_version_and_directories_may_be_left_out(file: Path) -> None:
    file.write_text('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}')
    assert read_reassignment(file) == {TopicPartition("t", 0): WantedReplicas((1, 2), ("any", "any"))}


def test_topics_and_partitions(file: Path) -> None:
    file.write_text('{"version": 1, "topics": [{"topic": "b"}, {"topic": "a"}, {"topic": "b"}]}')
    assert read_topics(file) == ["a", "b"]
    file.write_text('{"partitions": [{"topic": "t", "partition": 2}, {"topic": "t", "partition": 0}]}')
    assert by_topic(read_partitions(file)) == {"t": [0, 2]}


@pytest.mark.parametrize(
    ("partition", "reason"),
    [
        ({"partition": 0, "replicas": [1]}, '"topic"'),
        ({"topic": "t", "replicas": [1]}, '"partition"'),
        ({"topic": "t", "partition": True, "replicas": [1]}, '"partition"'),
        ({"topic": "t", "partition": -1, "replicas": [1]}, '"partition"'),
        ({"topic": "t", "partition": 0}, '"replicas"'),
        ({"topic": "t", "partition": 0, "replicas": []}, '"replicas"'),
        ({"topic": "t", "partition": 0, "replicas": ["1"]}, '"replicas"'),
        ({"topic": "t", "partition": 0, "replicas": [1, 1]}, "twice"),
        ({"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [3]}, '"log_dirs"'),
        ({"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any"]}, '2 "replicas" and 1'),
    ],
)
def test_refused_partitions(file: Path, partition: dict[str, object], reason: str) -> None:
    file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    with pytest.raises(CommandError, match=reason) as error:
        read_reassignment(file)
    assert error.value.exit_code == 2
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("{}", 'no list of objects "partitions"'),
        ('{"partitions": [1]}', 'no list of objects "partitions"'),
        ('{"version": 2, "partitions": []}', "has version 2"),
    ],
)
def test_refused_files(file: Path, text: str, reason: str) -> None:
    file.write_text(text)
    with pytest.raises(CommandError, match=reason):
        read_reassignment(file)


def test_a_plan_that_moves_nothing_is_one(file: Path) -> None:
    file.write_text(to_json({}))
    assert read_reassignment(file) == {}


def test_a_partition_named_twice_is_refused(file: Path) -> None:
    entry = {"topic": "t", "partition": 3, "replicas": [1]}
    file.write_text(json.dumps({"partitions": [entry, {**entry, "replicas": [2]}]}))
    with pytest.raises(CommandError, match="twice: t-3"):
        read_reassignment(file)


def test_a_missing_file_is_refused(file: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        read_topics(file)
