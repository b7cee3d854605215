"""The JSON files of reassignments and elections, the same that Apache Kafka's tools read and write.

- topics to move: ``{"version": 1, "topics": [{"topic": "t"}]}``
- a reassignment: ``{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2],
  "log_dirs": ["any", "/data/2"]}]}``; ``log_dirs`` may be left out
- partitions: ``{"partitions": [{"topic": "t", "partition": 0}]}``, and with ``"offset": 10`` those of records to delete

Whatever is wrong in a file ends the command with exit code 2 and nothing is changed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeGuard

from broker.cli.errors import CommandError
from log.topic_partition import TopicPartition

VERSION = 1
ANY_DIRECTORY = "any"


@dataclass(frozen=True, slots=True)
class WantedReplicas:
    """Replicas that a partition shall have, preferred leader first, and the directory on each broker."""

    replicas: tuple[int, ...]
    directories: tuple[str, ...]


Reassignment = dict[TopicPartition, WantedReplicas]


def read_topics(path: str | Path) -> list[str]:
    """Names of the topics to move, sorted."""
    file = _File(path)
    return sorted({file.text(entry, "topic") for entry in file.entries("topics")})


def read_partitions(path: str | Path) -> list[TopicPartition]:
    """Partitions, sorted, each once."""
    file = _File(path)
    return sorted(_each_once(file, [file.partition(entry) for entry in file.entries("partitions")]))


def read_offsets(path: str | Path) -> dict[TopicPartition, int]:
    """Offsets of partitions; -1 stands for the end."""
    file = _File(path)
    entries = file.entries("partitions")
    _each_once(file, [file.partition(entry) for entry in entries])
    if not entries:
        file.fail("names no partition")
    return {file.partition(entry): file.offset(entry) for entry in entries}


def read_reassignment(path: str | Path) -> Reassignment:
    """What each partition shall have; empty for the plan of a cluster in which nothing has to move."""
    file = _File(path)
    entries = file.entries("partitions")
    _each_once(file, [file.partition(entry) for entry in entries])
    return {file.partition(entry): _wanted(file, entry) for entry in entries}


def to_json(replicas: Mapping[TopicPartition, Sequence[int]]) -> str:
    """A reassignment as one line, directories left to the brokers."""
    partitions = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(ids), "log_dirs": [ANY_DIRECTORY] * len(ids)}
        for tp, ids in sorted(replicas.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"))


def names(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for a person."""
    return ", ".join(map(str, sorted(partitions)))


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Numbers of partitions by topic, as requests hold them."""
    found: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        found.setdefault(tp.topic, []).append(tp.partition)
    return found


class _File:
    def __init__(self, path: str | Path) -> None:
        self._path = path
        try:
            self._value = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}", exit_code=2) from None
        except ValueError as error:
            self.fail(f"is not JSON: {error}")
        if not isinstance(self._value, dict):
            self.fail("is not a JSON object")
        if self._value.get("version", VERSION) != VERSION:
            self.fail(f"has version {self._value['version']!r}; only {VERSION} is known")

    def fail(self, reason: str) -> NoReturn:
        raise CommandError(f"{self._path} {reason}", exit_code=2)

    def entries(self, key: str) -> list[dict[str, Any]]:
        found = self._value.get(key)
        if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
            self.fail(f'has no list of objects "{key}"')
        return list(found)

    def text(self, entry: dict[str, Any], key: str) -> str:
        value = entry.get(key)
        if not isinstance(value, str) or not value:
            self.fail(f'has an entry without "{key}": {entry}')
        return value

    def offset(self, entry: dict[str, Any]) -> int:
        number = entry.get("offset")
        if not _is_number(number) and number != -1:
            self.fail(f'has an entry without a number "offset": {entry}')
        return int(number)

    def partition(self, entry: dict[str, Any]) -> TopicPartition:
        number = entry.get("partition")
        if not _is_number(number):
            self.fail(f'has an entry without a number "partition": {entry}')
        return TopicPartition(self.text(entry, "topic"), number)


def _is_number(value: object) -> TypeGuard[int]:
    """Whether it can be the number of a partition or of a broker."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _each_once(file: _File, partitions: list[TopicPartition]) -> list[TopicPartition]:
    twice = [tp for tp, count in Counter(partitions).items() if count > 1]
    if twice:
        file.fail(f"names partitions twice: {names(twice)}")
    return partitions


def _wanted(file: _File, entry: dict[str, Any]) -> WantedReplicas:
    tp = file.partition(entry)
    replicas = entry.get("replicas")
    if not isinstance(replicas, list) or not replicas or not all(map(_is_number, replicas)):
        file.fail(f'has no list of broker ids "replicas" for {tp}')
    if len(set(replicas)) < len(replicas):
        file.fail(f"names a broker twice for {tp}: {replicas}")
    directories = entry.get("log_dirs", [ANY_DIRECTORY] * len(replicas))
    if not isinstance(directories, list) or not all(isinstance(each, str) for each in directories):
        file.fail(f'has "log_dirs" of {tp} that are no list of texts')
    if len(directories) != len(replicas):
        file.fail(f'has {len(replicas)} "replicas" and {len(directories)} "log_dirs" for {tp}')
    return WantedReplicas(tuple(replicas), tuple(directories))
