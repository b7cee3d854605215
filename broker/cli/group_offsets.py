"""Offsets of groups and ends of partitions, for ``odradek groups``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from broker.cli.client import describe
from broker.cli.errors import CommandError
from log.topic_partition import TopicPartition
from network.client import group_offsets
from network.client.cluster_client import ClusterClient, ClusterUnavailable
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from timer.clock import SystemClock

EARLIEST, LATEST = -2, -1
_LEADER_ROUNDS = 5
_LEADER_ROUND_MS = 3_000
_CLOCK = SystemClock()

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where offsets are to be set. `kind` is the option's name; `value` its offset, shift or timestamp in ms."""

    kind: str
    value: int = 0


def parse_target(choice: Mapping[str, Any], now_ms: Callable[[], int] = _CLOCK.wall_ms) -> Target:
    """The one option that was given. Raises CommandError for none or several, and for times that cannot be read."""
    given = {name: value for name, value in choice.items() if value is not None and value is not False}
    if len(given) != 1:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in choice)
        raise CommandError(f"give exactly one of {options}", exit_code=2)
    ((name, value),) = given.items()
    if name == "to_datetime":
        return Target(name, _timestamp(value))
    if name == "by_duration":
        return Target(name, now_ms() - _duration(value))
    return Target(name, 0 if value is True else int(value))


def _timestamp(text: str) -> int:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"--to-datetime {text!r} is not like 2026-01-31T12:00:00.000", exit_code=2) from None
    return round((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)


def _duration(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise CommandError(f"--by-duration {text!r} is not like P1DT2H30M or PT10S", exit_code=2)
    parts = {name: float(value or 0) for name, value in found.groupdict().items()}
    seconds = parts["days"] * 86_400 + parts["hours"] * 3_600 + parts["minutes"] * 60 + parts["seconds"]
    return round(seconds * 1000)


def as_partitions(client: ClusterClient, topics: Iterable[str]) -> list[TopicPartition]:
    """The partitions that `TOPIC` or `TOPIC:0,1` name, sorted. Raises CommandError for what does not exist."""
    found: set[TopicPartition] = set()
    for text in topics:
        name, _, numbers = text.partition(":")
        topic = client.metadata([name]).topics[name]
        if topic.error:
            raise CommandError(describe(topic.error, name))
        if not numbers:
            found.update(TopicPartition(name, number) for number in topic.partitions)
            continue
        if not re.fullmatch(r"\d+(,\d+)*", numbers):
            raise CommandError(f"--topic {text!r} is not TOPIC or TOPIC:0,1", exit_code=2)
        for number in map(int, numbers.split(",")):
            if number not in topic.partitions:
                raise CommandError(f"topic {name} has no partition {number}")
            found.add(TopicPartition(name, number))
    return sorted(found)


def committed_offsets(client: ClusterClient, group: str) -> dict[TopicPartition, int]:
    """All offsets of a group."""
    try:
        found = group_offsets.fetch_offsets(client, group)
    except ApiError as error:
        raise CommandError(f"{group}: {describe(error.code, None)}") from None
    return {TopicPartition(*place): each.offset for place, each in found.items() if each.offset >= 0}


def end_offsets(client: ClusterClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The ends of partitions; those that do not exist any more are left out."""
    return list_offsets(client, partitions, LATEST)


def list_offsets(
    client: ClusterClient, partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """Offsets for a timestamp (or EARLIEST, LATEST), asked of the leaders; -1 where no record is that late.

    Partitions without a leader are left out. Raises CommandError for a partition that still answers with an error when
    leaders have been looked up `_LEADER_ROUNDS` times.
    """
    left = set(partitions)
    offsets: dict[TopicPartition, int] = {}
    for rounds_left in reversed(range(_LEADER_ROUNDS)):
        errors: dict[TopicPartition, int] = {}
        unavailable: ClusterUnavailable | None = None
        # Partitions of one leader may have several a moment later, so they are sorted anew in each round.
        for led in _by_leader(client, left).values():
            try:
                answers = _ask_leader(client, led, timestamp)
            except ClusterUnavailable as error:
                unavailable = error
                continue
            for partition, error_code, offset in answers:
                if error_code:
                    errors[partition] = error_code
                else:
                    offsets[partition] = offset
                    left.discard(partition)
        if not errors and unavailable is None:
            break
        if rounds_left == 0:
            if unavailable is not None:
                raise unavailable
            partition, error_code = min(errors.items())
            raise CommandError(f"{partition}: {describe(error_code, None)}")
    return offsets


def _by_leader(client: ClusterClient, partitions: set[TopicPartition]) -> dict[int, list[TopicPartition]]:
    if not partitions:
        return {}
    topics = client.metadata(sorted({partition.topic for partition in partitions})).topics
    by_leader: dict[int, list[TopicPartition]] = {}
    for partition in sorted(partitions):
        found = topics[partition.topic].partitions.get(partition.partition)
        if found is not None and found.leader >= 0:
            by_leader.setdefault(found.leader, []).append(partition)
    return by_leader


def _ask_leader(
    client: ClusterClient, led: list[TopicPartition], timestamp: int
) -> list[tuple[TopicPartition, int, int]]:
    """Each partition of one leader with its error code and offset; without topics that have just gone."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for partition in led:
        topics.setdefault(partition.topic, []).append(
            ListOffsetsPartition(partition_index=partition.partition, timestamp=timestamp)
        )
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()]
    )
    answer = client.call_leader(led[0].topic, led[0].partition, request, _LEADER_ROUND_MS)
    return [
        (TopicPartition(topic.name, each.partition_index), each.error_code, each.offset)
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]


def commit_offsets(client: ClusterClient, group: str, offsets: Mapping[TopicPartition, int]) -> list[int]:
    """Set the offsets of a group without members. Returns the error codes of those that were refused."""
    answers = group_offsets.commit_offsets(client, group, {place: (offset, "") for place, offset in offsets.items()})
    return [code for code in answers.values() if code is not ErrorCode.NONE]


def new_offsets(
    client: ClusterClient, partitions: list[TopicPartition], committed: Mapping[TopicPartition, int], target: Target
) -> dict[TopicPartition, int]:
    """Where the target puts each partition. Raises CommandError where it has nothing to start from."""
    if target.kind == "to_earliest":
        return _all(partitions, list_offsets(client, partitions, EARLIEST))
    ends = _all(partitions, end_offsets(client, partitions))
    if target.kind == "to_latest":
        return ends
    if target.kind in ("to_datetime", "by_duration"):
        found = _all(partitions, list_offsets(client, partitions, target.value))
        return {name: ends[name] if offset < 0 else offset for name, offset in found.items()}
    if target.kind == "to_current":
        return {name: committed.get(name, ends[name]) for name in partitions}
    starts = _all(partitions, list_offsets(client, partitions, EARLIEST))
    if target.kind == "to_offset":
        wanted = dict.fromkeys(partitions, target.value)
    else:
        without = [str(name) for name in partitions if name not in committed]
        if without:
            raise CommandError(f"no offset to shift from: {', '.join(without)}")
        wanted = {name: committed[name] + target.value for name in partitions}
    return {name: min(max(offset, starts[name]), ends[name]) for name, offset in wanted.items()}


def _all(partitions: Iterable[TopicPartition], found: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    missing = [str(name) for name in partitions if name not in found]
    if missing:
        raise CommandError(f"no leader to ask about {', '.join(missing)}")
    return {name: found[name] for name in partitions}
