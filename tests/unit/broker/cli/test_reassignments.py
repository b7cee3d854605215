"""What the reassign commands work out before and while they ask the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.cli import reassignment_throttles
from broker.cli.errors import CommandError
from broker.cli.reassignment_throttles import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    Move,
    limit,
    plan_moves,
    throttled_replicas,
)
from broker.cli.reassignments import Ongoing, Watch, submit, wait_until_done
from log.topic_partition import TopicPartition
from network.client.connection import ConnectionFailed
from network.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from network.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from network.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from network.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from network.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from timer.clock import ManualClock

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Cluster:
    """Answers as a cluster does in which ``moving`` partitions of t move and brokers hold so many bytes."""

    def __init__(self) -> None:
        self.moving = {0, 1}
        self.sizes: dict[int, dict[int, int]] = {}
        self.away = False
        self.requests: list[Any] = []
        self.answer: Any = None

    def call_controller(self, request: Any, timeout_ms: int | None = None) -> Any:
        self.requests.append(request)
        if isinstance(request, AlterPartitionReassignmentsRequest):
            return self.answer
        if self.away:
            raise ConnectionFailed("the controller is away")
        asked = {number for topic in request.topics for number in topic.partition_indexes}
        partitions = [OngoingPartitionReassignment(partition_index=n) for n in sorted(self.moving & asked)]
        return ListPartitionReassignmentsResponse(topics=[OngoingTopicReassignment(name="t", partitions=partitions)])

    def call_broker(self, broker: int, request: Any, timeout_ms: int) -> Any:
        sizes = self.sizes.get(broker, {})
        asked = {number for topic in request.topics for number in topic.partitions}
        partitions = [
            DescribeLogDirsPartition(partition_index=n, partition_size=size) for n, size in sizes.items() if n in asked
        ]
        result = DescribeLogDirsResult(log_dir="d", topics=[DescribeLogDirsTopic(name="t", partitions=partitions)])
        return DescribeLogDirsResponse(results=[result])


class SlowBrokers:
    """Brokers 1 and 4 take a config at once, and go by it when they have been asked for it so many times."""

    def __init__(self, times: int) -> None:
        self.left = dict.fromkeys((1, 4), times)
        self.rates: dict[int, dict[str, str | None]] = {}

    def brokers(self) -> dict[int, int]:
        return self.left

    def call_any(self, request: Any) -> Any:
        assert not self.rates, "topics come first"
        return IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse()])

    def call_broker(self, broker: int, request: Any, timeout_ms: int) -> Any:
        if isinstance(request, IncrementalAlterConfigsRequest):
            self.rates[broker] = {each.name: each.value for each in request.resources[0].configs}
            return IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse()])
        self.left[broker] -= 1
        shown = self.rates[broker] if self.left[broker] <= 0 else {}
        configs = [
            DescribeConfigsResourceResult(name=name, value=value, config_source=2) for name, value in shown.items()
        ]
        return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=configs)])


# -- throttles ---------------------------------------------------------------------------------------------------------


def test_a_limit_is_in_force_before_the_move_starts() -> None:
    brokers = SlowBrokers(3)
    limit(brokers, {ZERO: Move([1], [4])}, 1000)  # type: ignore[arg-type]
    assert brokers.left == {1: 0, 4: 0}
    assert [sorted(rates.values()) for rates in brokers.rates.values()] == [["1000", "1000"]] * 2  # type: ignore[type-var]


def test_brokers_that_do_not_take_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassignment_throttles, "_APPLY_MS", 0)
    brokers = SlowBrokers(100)
    brokers.left[4] = 1
    with pytest.raises(CommandError, match=r"do not take their limit in time: 1$"):
        limit(brokers, {ZERO: Move([1], [4])}, 1000)  # type: ignore[arg-type]


def test_sources_and_destinations() -> None:
    moves = plan_moves({ZERO: [1, 2], ONE: [2, 3]}, {}, {ZERO: [2, 4, 5], ONE: [3, 2]})
    assert moves == {ZERO: Move([1, 2], [4, 5]), ONE: Move([2, 3], [])}


def test_replicas_that_are_being_added_are_no_source() -> None:
    running = {ZERO: Ongoing([3, 1, 2], [3], [2])}
    assert plan_moves({ZERO: [3, 1, 2]}, running, {ZERO: [3, 4]}) == {ZERO: Move([1, 2], [3, 4])}


def test_topic_configs_name_partitions_and_brokers() -> None:
    moves = {ONE: Move([3], [2]), ZERO: Move([2, 1], [0]), TopicPartition("u", 7): Move([4], [5])}
    assert throttled_replicas(moves) == {
        "t": {LEADER_REPLICAS: "0:1,0:2,1:3", FOLLOWER_REPLICAS: "0:0,1:2"},
        "u": {LEADER_REPLICAS: "7:4", FOLLOWER_REPLICAS: "7:5"},
    }


def test_the_target_of_what_goes_on() -> None:
    assert Ongoing([3, 1, 2], [3], [2]).target == [3, 1]


# -- starting ----------------------------------------------------------------------------------------------------------


def test_refused_partitions_are_named(cluster: Cluster) -> None:
    partitions = [
        ReassignablePartitionResponse(partition_index=0),
        ReassignablePartitionResponse(partition_index=1, error_code=39, error_message="no such broker"),
    ]
    topics = [ReassignableTopicResponse(name="t", partitions=partitions)]
    cluster.answer = AlterPartitionReassignmentsResponse(responses=topics)
    with pytest.raises(CommandError, match=r"refused: t-1: no such broker \(INVALID_REPLICA_ASSIGNMENT\)") as error:
        submit(cluster, {ONE: None, ZERO: [1, 2]})  # type: ignore[arg-type]
    assert "t-0" not in str(error.value)
    (request,) = cluster.requests
    assert [(p.partition_index, p.replicas) for p in request.topics[0].partitions] == [(0, [1, 2]), (1, None)]


# -- watching ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def watch() -> Watch:
    return Watch({ZERO: [4, 5], ONE: []}, {ZERO: 1000, ONE: 7777})


def test_progress_is_in_bytes(cluster: Cluster, watch: Watch) -> None:
    assert watch.total == 2 * 1000 + 1 + 1
    assert watch.look(cluster) == 0  # type: ignore[arg-type]
    cluster.sizes = {4: {0: 300}, 5: {0: 5000, 1: 5000}}
    cluster.moving = {0}
    # Never more than there is to copy; partition 1 is done and copied nothing.
    assert watch.look(cluster) == 300 + 1000 + 1  # type: ignore[arg-type]
    assert watch.waiting == 1
    cluster.moving = set()
    assert watch.look(cluster) == watch.total  # type: ignore[arg-type]
    cluster.away = True
    assert watch.look(cluster) == watch.total  # type: ignore[arg-type]


class Steps(ManualClock):
    """Time passes whenever somebody waits; each time, something happens in the cluster."""

    def __init__(self, step: Callable[[int], None]) -> None:
        super().__init__()
        self._step = step
        self._count = 0

    def wait(self, condition: object, timeout_ms: float | None) -> bool:
        self.advance(timeout_ms or 0)
        self._count += 1
        self._step(self._count)
        return False


def test_a_controller_that_is_away_for_a_while_is_waited_for(cluster: Cluster, watch: Watch) -> None:
    def step(count: int) -> None:
        cluster.away = count < 5
        cluster.sizes = {4: {0: 100 * count}}
        cluster.moving = {0} if count < 8 else set()

    shown: list[int] = []
    wait_until_done(cluster, watch, Steps(step), shown.append, stalled_ms=10_000)  # type: ignore[arg-type]
    assert shown == [0, 501, 601, 701, watch.total]


def test_what_does_not_move_at_all_ends_the_wait(cluster: Cluster, watch: Watch) -> None:
    with pytest.raises(CommandError, match="2 partitions still move, but nothing was copied for 10 s"):
        wait_until_done(cluster, watch, Steps(lambda count: None), [].append, stalled_ms=10_000)  # type: ignore[arg-type]
