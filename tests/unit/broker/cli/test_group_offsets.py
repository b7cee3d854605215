"""What `odradek groups reset-offsets` takes as a target, and how offsets are found while leaders move."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.cli.errors import CommandError
from broker.cli.group_offsets import LATEST, Target, list_offsets, parse_target
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient, ClusterUnavailable
from network.protocol.errors import ErrorCode
from network.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)


@pytest.mark.parametrize(
    ("choice", "target"),
    [
        ({"to_earliest": True}, Target("to_earliest")),
        ({"to_offset": 0}, Target("to_offset", 0)),
        ({"shift_by": -2}, Target("shift_by", -2)),
        ({"to_datetime": "2026-01-31T12:00:00"}, Target("to_datetime", 1_769_860_800_000)),
        ({"to_datetime": "2026-01-31T12:00:00.250+01:00"}, Target("to_datetime", 1_769_857_200_250)),
        ({"by_duration": "PT10S"}, Target("by_duration", 90_000)),
        ({"by_duration": "P0DT0H1M30.5S"}, Target("by_duration", 9_500)),
    ],
)
def test_targets(choice: dict[str, object], target: Target) -> None:
    options = {"to_earliest": False, "to_offset": None, "shift_by": None, "to_datetime": None, "by_duration": None}
    assert parse_target({**options, **choice}, lambda: 100_000) == target


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"to_earliest": True, "to_latest": True},
        {"to_datetime": "yesterday"},
        {"by_duration": "10s"},
        {"by_duration": "P"},
        {"by_duration": "PT"},
    ],
)
def test_targets_that_are_refused(choice: dict[str, object]) -> None:
    with pytest.raises(CommandError) as error:
        parse_target(choice, lambda: 0)
    assert error.value.exit_code == 2


class MovingLeaders:
    """Answers as brokers do whose leadership moves when a call has failed. `leaders` is what each round finds."""

    def __init__(self, leaders: list[dict[int, int]], dead: set[int]) -> None:
        self.leaders, self.dead = leaders, dead
        self.calls: list[list[int]] = []

    def metadata(self, topics: list[str]) -> Any:
        self.now = self.leaders.pop(0) if len(self.leaders) > 1 else self.leaders[0]
        partitions = {number: SimpleNamespace(leader=leader) for number, leader in self.now.items()}
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions=partitions)})

    def call_leader(self, topic: str, partition: int, request: ListOffsetsRequest, timeout_ms: int) -> Any:
        asked = [each.partition_index for each in request.topics[0].partitions]
        self.calls.append(asked)
        if self.now[partition] in self.dead:
            raise ClusterUnavailable("no answer")
        truth = self.leaders[-1]
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=number,
                            error_code=0 if truth[number] == self.now[number] else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                            offset=100 + number,
                        )
                        for number in asked
                    ],
                )
            ]
        )


def offsets_of(client: MovingLeaders) -> dict[int, int]:
    found = list_offsets(cast("ClusterClient", client), [TopicPartition("t", n) for n in client.leaders[-1]], LATEST)
    return {partition.partition: offset for partition, offset in found.items()}


def test_partitions_of_one_leader_that_have_two_a_moment_later() -> None:
    client = MovingLeaders([{0: 1, 1: 1}, {0: 1, 1: 2}], dead=set())
    assert offsets_of(client) == {0: 100, 1: 101}
    assert client.calls == [[0, 1], [1]]


def test_a_leader_that_died_is_asked_no_more_when_there_is_another() -> None:
    client = MovingLeaders([{0: 1, 1: 3}, {0: 1, 1: 2}], dead={3})
    assert offsets_of(client) == {0: 100, 1: 101}


def test_a_partition_without_a_leader_is_left_out() -> None:
    assert offsets_of(MovingLeaders([{0: 1, 1: -1}], dead=set())) == {0: 100}


def test_what_goes_on_failing_is_told() -> None:
    with pytest.raises(ClusterUnavailable):
        offsets_of(MovingLeaders([{0: 1}], dead={1}))
    moved = MovingLeaders([{0: 2}] * 10 + [{0: 1}], dead=set())
    with pytest.raises(CommandError, match=r"t-0: .*NOT_LEADER_OR_FOLLOWER"):
        offsets_of(moved)
