"""Partitions rest in a follower's session, and nothing in its answers, or in what the leader notes, shows that."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.fetch import handle
from broker.fetching import standby
from broker.fetching.fetch_contexts import FetchManager
from broker.fetching.fetch_session import FetchSession, FetchSessionCache, PartitionKey
from broker.fetching.standby import SWEEP_MS, Standby
from broker.metrics import Meter
from broker.replication import partition_reads
from broker.replication.isr.changes import maybe_shrink_isr
from broker.requests.registry import Call
from log.records.validation import AppendOrigin
from network.protocol.api import API, ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.header import RequestHeader
from network.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from network.server.connection_info import ConnectionInfo
from network.server.request import SEND, Request
from tests.unit.broker.harness import TOPIC_ID, TP, LeadingBroker
from tests.unit.log.harness import batch
from timer.chance import SeededChance
from timer.metrics import NULL_METRICS
from timer.purgatory import DelayedOperation


def _size(answer: PartitionData) -> int:
    records = answer.records or b""
    assert isinstance(records, bytes | bytearray | memoryview)
    return len(records)


class Leader(LeadingBroker):
    """Broker 1, whose follower 2 fetches by requests."""

    def __init__(self, directory: Path, seed: int = 0) -> None:
        super().__init__(directory)
        self.sessions = FetchSessionCache(1000, self.clock, SeededChance(seed), NULL_METRICS)
        snapshot = SimpleNamespace(topic_names={TOPIC_ID: "t"}, partition=lambda *_: self)
        self.context: Any = SimpleNamespace(
            authorizer=SimpleNamespace(allows_everything=True),
            metadata_cache=SimpleNamespace(snapshot=snapshot, broker_node=lambda *_: None),
            fetch_manager=FetchManager(self.sessions),
            fetch_max_bytes=1 << 20,
            replica_manager=self.manager,
        )
        self.said: list[Any] = []

    @property
    def session(self) -> FetchSession:
        (found,) = (each for shard in self.sessions._shards for each in shard.sessions.values())
        return found

    @property
    def active(self) -> int:
        assert self.session.standby is not None
        return len(self.session.standby.active)

    def write(self) -> None:
        entries: dict[Any, Any] = {TP: batch(b"x")}
        self.manager.append_records(30_000, 1, entries, AppendOrigin.CLIENT, lambda _: None)
        self.manager._action_queue.run()

    def ask(self, message: FetchRequest) -> None:
        header = RequestHeader(ApiKey.FETCH, 17, 1)
        raw = Request(header, API[ApiKey.FETCH], memoryview(b""), 0, ConnectionInfo("id"), self, None, 1)  # type: ignore[arg-type]
        handle(Call(raw, message, self.context))

    def respond(self, request: Request, kind: int, payload: Any) -> None:
        assert kind == SEND
        data = b"".join(part.read() if hasattr(part, "read") else bytes(part) for part in payload)
        for part in payload:
            if hasattr(part, "release") and not isinstance(part, memoryview):
                part.release()
        self.said.append(API[ApiKey.FETCH].response.decode(data, 17, 9))

    def now_ns(self) -> int:
        return 1


class Follower:
    """Broker 2, with one partition in one session."""

    def __init__(self, leader: Leader) -> None:
        self.leader = leader
        self.session_id = self.epoch = 0
        self.offset = self.log_start = 0
        self.leader_epoch = 1
        self.broker_epoch = 7
        self._asked: tuple[int, int, int] | None = None

    def begin(self, wait_ms: int = 0) -> None:
        asked = (self.offset, self.log_start, self.leader_epoch)
        topics = []
        if asked != self._asked or not self.epoch:
            partition = FetchPartition(
                partition=0, fetch_offset=self.offset, log_start_offset=self.log_start, partition_max_bytes=1 << 20,
                current_leader_epoch=self.leader_epoch, last_fetched_epoch=-1,
            )  # fmt: skip
            topics = [FetchTopic(topic_id=TOPIC_ID, partitions=[partition])]
        self._asked = asked
        state = ReplicaState(replica_id=2, replica_epoch=self.broker_epoch)
        request = FetchRequest(
            replica_state=state, max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_id=self.session_id,
            session_epoch=self.epoch, topics=topics,
        )  # fmt: skip
        self.leader.ask(request)

    def end(self) -> PartitionData | None:
        """What the answer says of the partition, if anything."""
        response: FetchResponse = self.leader.said.pop()
        assert not response.error_code
        assert not self.leader.said
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        if not response.responses:
            return None
        ((answer,),) = [topic.partitions for topic in response.responses]
        if not answer.error_code:
            self.log_start = max(self.log_start, answer.log_start_offset)
            self.offset = max(self.offset, self.log_start) + _size(answer) // len(batch(b"x"))
        return answer

    def fetch(self) -> PartitionData | None:
        self.begin()
        return self.end()


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Leader]:
    leader = Leader(tmp_path)
    leader.lead([1, 2])
    yield leader
    leader.delayed.shutdown()


@pytest.fixture
def follower(leader: Leader) -> Follower:
    """It has all, and its partition rests."""
    leader.write()
    follower = Follower(leader)
    while not follower.epoch or leader.active:
        follower.fetch()
        assert follower.epoch < 9
    return follower


@pytest.mark.parametrize("seed", range(6))
def test_answers_are_those_of_a_leader_that_looks_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(standby, "SWEEP_MS", 1 << 40)  # it would hide what is not woken
    rest, rests = Standby.let_rest, True
    monkeypatch.setattr(
        Standby, "let_rest", lambda self, cached, slot, replica: rests and rest(self, cached, slot, replica)
    )
    chance = random.Random(seed)
    leaders = [Leader(tmp_path / name, seed) for name in ("rests", "looks")]
    followers = [Follower(each) for each in leaders]
    epoch, rested = 1, 0
    for each in leaders:
        each.lead([1, 2])
    for _ in range(400):
        event = chance.random()
        isr = chance.choice([[1, 2], [1]])
        passed = chance.choice([1, 500, 6_000, 31_000])
        for each, follower in zip(leaders, followers, strict=True):
            rests = each is leaders[0]
            log = each.partition.log
            assert log is not None
            if event < 0.12:
                each.write()
            elif event < 0.17:
                each.lead(isr, epoch + 1)
                follower.leader_epoch = epoch + 1
            elif event < 0.22:
                each.clock.advance(passed)
            elif event < 0.27:
                maybe_shrink_isr(each.partition)
            elif event < 0.3:
                partition_reads.delete_records(each.partition, -1)
            elif event < 0.33:
                each.partition.recheck_high_watermark()
        epoch += 0.12 <= event < 0.17
        seen = []
        for each, follower in zip(leaders, followers, strict=True):
            rests = each is leaders[0]
            answer = follower.fetch() if event >= 0.3 else None
            replica = each.partition.remote_replicas[2]
            seen.append((
                answer, follower.offset, replica.log_end_offset, replica.log_start_offset, replica.caught_up_ms,
                repr(each.partition.isr_state), each.partition.log and each.partition.log.high_watermark,
            ))  # fmt: skip
        assert seen[0] == seen[1]
        rested += bool(followers[0].epoch) and not leaders[0].active
    assert rested > 40
    for each in leaders:
        each.delayed.shutdown()


def test_a_record_ends_the_wait_of_a_fetch_that_looks_at_nothing(leader: Leader, follower: Follower) -> None:
    follower.begin(wait_ms=500)
    assert not leader.said
    leader.write()
    answer = follower.end()
    assert answer is not None
    assert _size(answer) == len(batch(b"x"))
    assert follower.fetch() is None  # it moves the high watermark, of which the next one hears
    assert leader.active == 1
    answer = follower.fetch()
    assert answer is not None
    assert answer.high_watermark == 2
    assert follower.fetch() is None
    assert leader.active == 0


def test_a_check_that_comes_after_the_answer_finds_nothing_to_do(leader: Leader, follower: Follower) -> None:
    """The answer has read what woke, which the fetch did not begin with."""
    follower.begin(wait_ms=500)
    assert leader.session.standby is not None
    waiting = leader.session.standby.waiting
    assert waiting is not None
    leader.write()
    assert waiting.is_completed
    assert not waiting.safe_try_complete()
    assert follower.end() is not None


def test_a_fetch_that_was_overtaken_does_not_stand_for_the_newest(leader: Leader, follower: Follower) -> None:
    manager, session = leader.context.fetch_manager, leader.session
    older, newer = (
        manager.context(17, session.id, session.epoch, True, (), (), lambda _: "t", 2, follower.broker_epoch)
        for _ in range(2)
    )
    first, second = DelayedOperation(1), DelayedOperation(1)
    newer.wait(second, lambda *_: None)
    older.wait(first, lambda *_: None)
    assert session.standby is not None
    assert session.standby.waiting is second


def test_a_session_that_takes_a_rest_over_wakes_the_other(leader: Leader, follower: Follower) -> None:
    """The follower's connection broke while its fetch waited, and it has begun another session meanwhile."""
    leader.write()
    for _ in range(3):
        follower.fetch()
    assert leader.active == 1
    follower.begin(wait_ms=500)  # with an active partition, which rests when the wait is over
    again = Follower(leader)
    again.offset = follower.offset
    for _ in range(3):
        again.fetch()
    leader.clock.advance(501)
    leader.delayed.fetch.step()
    leader.said.clear()
    again.begin(wait_ms=500)
    leader.write()
    answer = again.end()
    assert answer is not None
    assert _size(answer)


def test_a_high_watermark_is_told_but_ends_no_wait(leader: Leader, follower: Follower) -> None:
    follower.begin(wait_ms=500)
    log = leader.partition.log
    assert log is not None
    log.update_high_watermark(0)
    leader.partition.recheck_high_watermark()
    assert log.high_watermark == 1
    assert leader.active == 1
    assert not leader.said
    leader.clock.advance(501)
    leader.delayed.fetch.step()
    answer = follower.end()
    assert answer is None  # it is what the follower knows
    assert leader.active == 0


@pytest.mark.parametrize("before_it_waits", [False, True])
def test_another_role_is_told_at_once(
    leader: Leader, follower: Follower, monkeypatch: pytest.MonkeyPatch, before_it_waits: bool
) -> None:
    read = leader.manager.read_from_log

    def read_then_change(*given: Any, **more: Any) -> Any:
        results = read(*given, **more)
        monkeypatch.undo()
        leader.obey(2, [1, 2], 2)
        return results

    if before_it_waits:
        monkeypatch.setattr(leader.manager, "read_from_log", read_then_change)
        follower.begin(wait_ms=500)
    else:
        follower.begin(wait_ms=500)
        leader.obey(2, [1, 2], 2)
    answer = follower.end()
    assert answer is not None
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_what_changes_unseen_is_found_by_a_sweep(leader: Leader, follower: Follower) -> None:
    log = leader.partition.log
    assert log is not None
    assert log.maybe_increment_log_start_offset(1, "retention")
    assert follower.fetch() is None
    leader.clock.advance(SWEEP_MS)
    answer = follower.fetch()
    assert answer is not None
    assert answer.log_start_offset == 1


def test_spared_reads_are_counted(leader: Leader, follower: Follower) -> None:
    reads = leader.manager.metrics.topic("t").total_fetch
    assert isinstance(reads, Meter)
    leader.manager.metrics.flush()
    before = reads.count
    for _ in range(10):
        follower.fetch()
    leader.clock.advance(SWEEP_MS)
    follower.fetch()
    leader.manager.metrics.flush()
    assert reads.count - before >= 11


def test_a_follower_that_is_registered_anew_is_noted_everywhere(leader: Leader, follower: Follower) -> None:
    follower.broker_epoch = 8
    assert follower.fetch() is None
    assert leader.partition.remote_replicas[2].broker_epoch == 8


def test_a_partition_that_was_forgotten_does_not_come_back(leader: Leader, follower: Follower) -> None:
    cached = next(iter(leader.session.partitions.values()))
    leader.clock.advance(900)
    follower.fetch()
    last = leader.clock.wall_ms()
    leader.session.apply([], [PartitionKey(None, TOPIC_ID, 0)])
    assert leader.partition.remote_replicas[2].rest is cached
    leader.write()
    assert leader.active == 0
    assert leader.partition.remote_replicas[2].rest is None
    assert leader.partition.remote_replicas[2].last_caught_up_ms == last


def test_who_stops_fetching_counts_as_caught_up_until_then(leader: Leader, follower: Follower) -> None:
    replica = leader.partition.remote_replicas[2]
    leader.clock.advance(900)
    follower.fetch()
    last = leader.clock.wall_ms()
    leader.clock.advance(5_000)
    assert replica.caught_up_ms == last
    leader.write()
    assert (replica.caught_up_ms, replica.last_fetch_ms) == (last, last)
