from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.replication.isr import changes
from broker.replication.isr.alter_partition import partition_data
from broker.replication.isr.machine import IsrEvent
from broker.replication.isr.state import (
    CommittedIsr,
    LeaderAndIsr,
    LeaderRecoveryState,
    PendingExpandIsr,
    PendingShrinkIsr,
)
from broker.replication.partition import Partition
from log.config import LogConfig
from log.offset_metadata import LogOffsetMetadata
from log.records.validation import AppendOrigin
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from network.protocol.uuids import ZERO_UUID
from tests.unit.log import harness
from tests.unit.log.harness import TP, Harness

LAG_MS = 10_000


class Environment:
    """What a partition is given: a log of its own, and the answers of others as a test sets them."""

    broker_id = 1
    lag_time_max_ms = LAG_MS

    def __init__(self, directory: Path, min_isr: int = 1) -> None:
        storage = Harness(directory, LogConfig(min_insync_replicas=min_isr))
        self.clock = storage.clock
        self.log = storage.open()
        self.alive = {1, 2, 3}
        self.submitted: list[tuple[LeaderAndIsr, Callable[[LeaderAndIsr | ErrorCode], None]]] = []
        self.alter_partition = self
        self.checked: list[TopicPartition] = []
        self.delayed = SimpleNamespace(num_delete_records=0, check_all=self.checked.append)
        meter = SimpleNamespace(mark=lambda n=1: None)
        self.isr_meters = SimpleNamespace(expands=meter, shrinks=meter, failed=meter)

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self.alive

    def create_log(self, tp: TopicPartition, topic_id: bytes, *, is_new: bool, is_future: bool) -> Any:
        return self.log

    def log_topic_id(self, tp: TopicPartition) -> bytes | None:
        return None

    def submit(self, tp: TopicPartition, topic_id: bytes, proposal: LeaderAndIsr, epoch: int, callback: Any) -> None:
        self.submitted.append((proposal, callback))


def state(
    leader: int, epoch: int, isr: list[int], *, partition_epoch: int = 0, replicas: tuple[int, ...] = (1, 2, 3)
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=0,
        leader=leader,
        leader_epoch=epoch,
        isr=isr,
        partition_epoch=partition_epoch,
        replicas=list(replicas),
        is_new=True,
    )


def leader(environment: Environment, isr: list[int], epoch: int = 5) -> Partition:
    partition = Partition(TP, environment)  # type: ignore[arg-type]
    assert partition.make_leader(state(1, epoch, isr), ZERO_UUID)
    return partition


def fetch(partition: Partition, environment: Environment, broker_id: int, offset: int, broker_epoch: int = -1) -> None:
    replica = partition.follower(broker_id, 5)
    changes.update_follower(
        partition,
        replica,
        LogOffsetMetadata(offset, 0, offset),
        0,
        environment.clock.wall_ms(),
        environment.log.log_end_offset,
        broker_epoch,
    )


def append(partition: Partition, count: int, acks: int = 1) -> bool:
    _, moved = partition.append_as_leader(harness.batch(*[b"x"] * count), AppendOrigin.CLIENT, acks)
    return moved


def test_new_leader_waits_for_every_member_of_the_isr(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    harness.append(environment.log, *[b"x"] * 10, epoch=4)
    partition = leader(environment, [1, 2, 3])
    assert environment.log.end_offset_for_epoch(4) == (4, 10)
    assert environment.log.latest_epoch == 5
    assert environment.log.high_watermark == 0
    fetch(partition, environment, 2, 10)
    assert environment.log.high_watermark == 0
    fetch(partition, environment, 3, 7)
    assert environment.log.high_watermark == 7
    fetch(partition, environment, 3, 10)
    assert environment.log.high_watermark == 10
    assert environment.checked == [TP, TP]


def test_alone_in_the_assignment_the_high_watermark_follows_the_end(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    partition = Partition(TP, environment)  # type: ignore[arg-type]
    partition.make_leader(state(1, 5, [1], replicas=(1,)), ZERO_UUID)
    assert append(partition, 3)
    assert environment.log.high_watermark == 3


def test_expansion_counts_as_soon_as_it_is_proposed(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    partition = leader(environment, [1, 2])
    append(partition, 5)
    environment.clock.advance(LAG_MS + 1)  # broker 3 is far behind and no longer holds anything back
    fetch(partition, environment, 2, 5)
    assert environment.log.high_watermark == 5
    fetch(partition, environment, 3, 5)
    assert isinstance(partition.isr_state, PendingExpandIsr)
    assert partition.isr_state.isr == (1, 2)
    assert partition.isr_state.maximal == {1, 2, 3}
    append(partition, 5)
    fetch(partition, environment, 2, 10)
    assert environment.log.high_watermark == 5, "the high watermark waits for the proposed member"
    proposal, answer = environment.submitted[0]
    assert proposal.isr == (1, 2, 3)
    answer(LeaderAndIsr(1, 5, (1, 2, 3), LeaderRecoveryState.RECOVERED, 1))
    assert isinstance(partition.isr_state, CommittedIsr)
    assert partition.partition_epoch == 1


@pytest.mark.parametrize(("broker_epoch", "told"), [(77, 77), (-1, -1)])
def test_a_proposal_tells_in_which_broker_epoch_its_member_was_in_sync(
    tmp_path: Path, broker_epoch: int, told: int
) -> None:
    environment = Environment(tmp_path)
    partition = leader(environment, [1, 2])
    environment.clock.advance(LAG_MS + 1)
    fetch(partition, environment, 2, 0, broker_epoch=66)
    fetch(partition, environment, 3, 0, broker_epoch=broker_epoch)
    ((proposal, _),) = environment.submitted
    members = partition_data(0, proposal, 3).new_isr_with_epochs
    assert [(member.broker_id, member.broker_epoch) for member in members] == [(1, -1), (2, -1), (3, told)]
    assert partition_data(0, proposal, 2).new_isr == [1, 2, 3]


def test_no_expansion_below_the_start_of_the_leader_epoch(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    harness.append(environment.log, *[b"x"] * 10, epoch=4)
    partition = leader(environment, [1])
    fetch(partition, environment, 3, 9)
    assert not environment.submitted
    environment.alive.discard(3)
    fetch(partition, environment, 3, 10)
    assert not environment.submitted, "a broker that is not alive may not join"
    environment.alive.add(3)
    fetch(partition, environment, 3, 10)
    assert [proposal.isr for proposal, _ in environment.submitted] == [(1, 3)]


def test_shrink_holds_the_high_watermark_until_it_is_confirmed(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    partition = leader(environment, [1, 2, 3])
    append(partition, 5)
    fetch(partition, environment, 2, 5)
    environment.clock.advance(LAG_MS + 1)
    fetch(partition, environment, 2, 5)
    changes.maybe_shrink_isr(partition)
    assert isinstance(partition.isr_state, PendingShrinkIsr)
    assert partition.isr_state.maximal == {1, 2, 3}
    assert environment.log.high_watermark == 0
    changes.maybe_shrink_isr(partition)
    assert len(environment.submitted) == 1, "one change at a time"
    _, answer = environment.submitted[0]
    answer(LeaderAndIsr(1, 5, (1, 2), LeaderRecoveryState.RECOVERED, 1))
    assert environment.log.high_watermark == 5


def test_one_step_behind_is_in_sync(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    partition = leader(environment, [1, 2], 5)
    for _ in range(8):
        append(partition, 1)
        environment.clock.advance(LAG_MS // 4)
        fetch(partition, environment, 2, environment.log.log_end_offset - 1)
        fetch(partition, environment, 3, environment.log.log_end_offset)
    changes.maybe_shrink_isr(partition)
    assert not isinstance(partition.isr_state, PendingShrinkIsr)


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_definite_refusal_reverts(tmp_path: Path, code: ErrorCode) -> None:
    environment = Environment(tmp_path)
    partition = leader(environment, [1])
    fetch(partition, environment, 2, 0)
    environment.submitted[0][1](code)
    assert isinstance(partition.isr_state, CommittedIsr)
    assert partition.isr_state.isr == (1,)


@pytest.mark.parametrize("freed_by", ["refusal", "time", "end of the broker"])
def test_the_high_watermark_goes_on_without_a_fetch_when_it_waits_for_nobody(tmp_path: Path, freed_by: str) -> None:
    """A broker that stops is fetching still when it is out of the ISR; the others have everything, nobody appends."""
    environment = Environment(tmp_path, min_isr=2)
    partition = leader(environment, [1, 2])
    fetch(partition, environment, 3, 0)
    append(partition, 5)
    fetch(partition, environment, 2, 5)
    assert environment.log.high_watermark == 0
    _, answer = environment.submitted[0]
    if freed_by == "refusal":
        environment.alive.discard(3)
        answer(ErrorCode.INELIGIBLE_REPLICA)
    else:
        answer(ErrorCode.INELIGIBLE_REPLICA)
        partition.recheck_high_watermark()
        assert environment.log.high_watermark == 0, "caught up a moment ago and alive: it may join"
        if freed_by == "time":
            environment.clock.advance(LAG_MS + 1)
        else:
            environment.alive.discard(3)
        partition.recheck_high_watermark()
    assert environment.log.high_watermark == 5
    assert environment.checked == [TP], "whoever waits for it is told"


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION])
def test_unclear_refusal_stays_pending(tmp_path: Path, code: ErrorCode) -> None:
    environment = Environment(tmp_path)
    partition = leader(environment, [1])
    fetch(partition, environment, 2, 0)
    environment.submitted[0][1](code)
    assert partition.isr_state.maximal == {1, 2}
    assert len(environment.submitted) == 1
    partition.make_leader(state(1, 6, [1, 2], partition_epoch=3), ZERO_UUID)
    assert partition.isr_state.isr == (1, 2)


def test_other_errors_are_tried_again(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    partition = leader(environment, [1])
    fetch(partition, environment, 2, 0)
    environment.submitted[0][1](ErrorCode.UNKNOWN_SERVER_ERROR)
    assert [proposal.isr for proposal, _ in environment.submitted] == [(1, 2), (1, 2)]


def test_answer_after_a_newer_leader_and_isr_is_ignored(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    partition = leader(environment, [1])
    fetch(partition, environment, 2, 0)
    partition.make_leader(state(1, 6, [1], partition_epoch=3), ZERO_UUID)
    environment.submitted[0][1](LeaderAndIsr(1, 5, (1, 2), LeaderRecoveryState.RECOVERED, 4))
    assert partition.isr_state.isr == (1,)
    assert partition.partition_epoch == 3


def test_min_isr(tmp_path: Path) -> None:
    environment = Environment(tmp_path, min_isr=2)
    partition = leader(environment, [1])
    with pytest.raises(ApiError) as error:
        append(partition, 1, acks=-1)
    assert error.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert environment.log.log_end_offset == 0, "nothing is written"
    append(partition, 1)
    assert environment.log.high_watermark == 0, "frozen while under min.insync.replicas"


def test_a_lower_min_isr_sets_the_high_watermark_free(tmp_path: Path) -> None:
    environment = Environment(tmp_path, min_isr=2)
    partition = leader(environment, [1])
    environment.clock.advance(LAG_MS + 1)
    append(partition, 3)
    partition.recheck_high_watermark()
    assert environment.log.high_watermark == 0
    environment.log.update_config(LogConfig(min_insync_replicas=1))
    partition.recheck_high_watermark()
    assert environment.log.high_watermark == 3
    assert environment.checked == [TP]


def test_min_isr_is_capped_by_the_assignment(tmp_path: Path) -> None:
    environment = Environment(tmp_path, min_isr=5)
    partition = Partition(TP, environment)  # type: ignore[arg-type]
    partition.make_leader(state(1, 5, [1], replicas=(1,)), ZERO_UUID)
    assert append(partition, 1, acks=-1)


def test_older_partition_epoch_changes_nothing(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    partition = Partition(TP, environment)  # type: ignore[arg-type]
    partition.make_leader(state(1, 5, [1], partition_epoch=4), ZERO_UUID)
    assert not partition.make_follower(state(2, 6, [2], partition_epoch=3), ZERO_UUID)
    assert partition.is_leader
    assert partition.leader_epoch == 5


def test_follower_answers_not_leader_and_fences_by_epoch_first(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    partition = Partition(TP, environment)  # type: ignore[arg-type]
    assert partition.make_follower(state(2, 7, [2, 1]), ZERO_UUID)
    cases = (
        (6, ErrorCode.FENCED_LEADER_EPOCH),
        (8, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (7, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    )
    for epoch, expected in cases:
        with pytest.raises(ApiError) as error:
            partition.local_log(epoch, require_leader=True)
        assert error.value.code is expected
    assert partition.local_log(7, require_leader=False) is environment.log
    assert partition.make_follower(state(2, 8, [2, 1]), ZERO_UUID), "a new epoch of the same leader restarts fetching"


def test_a_change_of_the_isr_that_breaks_its_rules_is_noticed(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    partition = leader(environment, [1, 2])
    before = partition.isr_state
    with pytest.raises(AssertionError, match="no replica"):
        changes.propose(partition, IsrEvent.CAUGHT_UP, (1, 2, 9))
    with pytest.raises(AssertionError, match="leaves the leader out"):
        changes.propose(partition, IsrEvent.CAUGHT_UP, (2, 3))
    assert partition.isr_state is before
    partition.make_follower(state(2, 6, [1, 2]), ZERO_UUID)
    with pytest.raises(AssertionError, match="does not lead"):
        changes.propose(partition, IsrEvent.CAUGHT_UP, (1, 2, 3))
    assert partition.isr_state.isr == ()
    assert not environment.submitted
