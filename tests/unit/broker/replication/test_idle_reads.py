"""A follower that has everything is answered by comparisons, and nothing shows that it was."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.fetching.fetch_contexts import FetchManager
from broker.fetching.fetch_session import FetchSessionCache, PartitionKey
from broker.replication import replica_manager
from broker.replication.idle_reads import idle_read
from broker.replication.isr.remote_replica import RemoteReplica
from broker.replication.results import FetchEntry, FetchParams, FetchPartitionData, LogReadResult
from log.fetch_data import FetchIsolation
from log.records.validation import AppendOrigin
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import PartitionData
from tests.unit.broker.harness import TOPIC_ID, TP, LeadingBroker
from tests.unit.log.harness import batch
from timer.chance import SeededChance
from timer.clock import ManualClock
from timer.metrics import NULL_METRICS

Results = list[tuple[TopicPartition, LogReadResult]]


def params(max_wait_ms: int = 0, broker_epoch: int = 7) -> FetchParams:
    return FetchParams(17, 2, broker_epoch, max_wait_ms, 1, 1 << 20, FetchIsolation.LOG_END)


def wanted(offset: int, epoch: int = 1, last_epoch: int = -1, log_start: int = 0) -> FetchPartitionData:
    return FetchPartitionData(TOPIC_ID, offset, log_start, 1 << 20, epoch, last_epoch)


def told(results: Results) -> list[object]:
    """All that is answered, and where a wait would begin."""
    ((_, each),) = results
    found: list[object] = [
        each.error, each.high_watermark, each.last_stable_offset, each.log_start_offset, each.leader_log_end_offset,
        each.diverging_epoch, each.fetch_offset_metadata, each.size,
    ]  # fmt: skip
    each.release()
    return found


def noted(replica: RemoteReplica) -> list[object]:
    return [getattr(replica, name) for name in RemoteReplica.__slots__]


def append(broker: LeadingBroker) -> None:
    entries: dict[TopicPartition, Any] = {TP: batch(b"x")}
    broker.manager.append_records(30_000, -1, entries, AppendOrigin.CLIENT, broker.answers.append)


@pytest.mark.parametrize("seed", range(5))
def test_answers_and_what_is_noted_are_those_of_a_whole_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    brokers = [LeadingBroker(tmp_path / name) for name in ("quick", "whole")]
    epoch, isr, idle = 1, [1, 2], 0
    for broker in brokers:
        broker.lead(isr)
    for _ in range(300):
        event = chance.random()
        if event < 0.08:
            for broker in brokers:
                append(broker)
        elif event < 0.12:
            epoch += 1
            isr = chance.choice([[1, 2], [1]])
            for broker in brokers:
                broker.lead(isr, epoch)
        elif event < 0.2:
            passed = chance.choice([1, 10])
            for broker in brokers:
                broker.clock.advance(passed)
        log = brokers[0].partition.log
        assert log is not None
        end = log.log_end_offset
        asked = wanted(
            chance.choice([end] * 8 + [0, max(0, end - 1), end + 1]),
            chance.choice([epoch] * 8 + [epoch - 1, epoch + 1]),
            chance.choice([log.latest_epoch or -1] * 8 + [-1, 1]),
            chance.choice([0] * 8 + [end]),
        )
        is_progress = chance.random() < 0.8
        seen = []
        for broker, is_quick in zip(brokers, (True, False), strict=True):
            with monkeypatch.context() as patch:
                calls: list[LogReadResult | None] = []
                patch.setattr(
                    replica_manager,
                    "idle_read",
                    lambda *given, quick=is_quick, calls=calls: (
                        calls.append(idle_read(*given) if quick else None) or calls[-1]
                    ),
                )
                answered = told(broker.manager.read_from_log(params(), [(TP, asked)], is_progress))
                idle += is_quick and calls[0] is not None
            partition = broker.partition
            answers = len(broker.answers)
            broker.answers.clear()
            seen.append((answered, noted(partition.remote_replicas[2]), repr(partition.isr_state), answers))
        assert seen[0] == seen[1]
    assert idle > 50


def test_a_record_that_comes_between_the_read_and_the_wait_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = LeadingBroker(tmp_path)
    broker.lead([1, 2])
    broker.manager.fetch_messages(params(), [(TP, wanted(0))], lambda results: None)
    read = broker.manager.read_from_log

    def read_then_append(given: FetchParams, entries: Sequence[FetchEntry], update_followers: bool) -> Results:
        results = read(given, entries, update_followers)
        monkeypatch.undo()
        broker.append()
        return results

    monkeypatch.setattr(broker.manager, "read_from_log", read_then_append)
    answers: list[Results] = []
    broker.manager.fetch_messages(params(500), [(TP, wanted(0))], answers.append)
    ((_, result),) = answers[0]
    assert result.size > 0
    result.release()
    broker.delayed.shutdown()


@pytest.mark.parametrize("change", ["a record", "another leader", "a newer epoch", "a failed directory"])
def test_what_happens_while_it_waits_ends_the_wait(tmp_path: Path, change: str) -> None:
    broker = LeadingBroker(tmp_path)
    broker.lead([1, 2])
    answers: list[Results] = []
    for _ in range(2):  # the second finds nothing to note but the time
        broker.manager.fetch_messages(params(500), [(TP, wanted(0))], answers.append)
    assert not answers
    assert broker.delayed.fetch.num_delayed == 2
    if change == "a record":
        broker.append()
        broker.delayed.check_all(TP)
    elif change == "another leader":
        broker.obey(2, [1, 2], 2)
    elif change == "a newer epoch":
        broker.lead([1, 2], 2)
        broker.delayed.check_all(TP)
    else:
        broker.manager.handle_log_dir_failure(broker.directory)
    assert len(answers) == 2
    codes = {result.error for results in answers for _, result in results}
    expected = {
        "a record": ErrorCode.NONE,
        "another leader": ErrorCode.FENCED_LEADER_EPOCH,
        "a newer epoch": ErrorCode.FENCED_LEADER_EPOCH,
        "a failed directory": ErrorCode.KAFKA_STORAGE_ERROR,
    }
    assert codes == {expected[change]}
    for results in answers:
        results[0][1].release()
    broker.delayed.shutdown()


def test_a_session_is_not_told_again_what_it_knows() -> None:
    cache = FetchSessionCache(1000, ManualClock(), SeededChance(0), NULL_METRICS)
    manager = FetchManager(cache)
    keys = [PartitionKey("t", TOPIC_ID, number) for number in range(2)]
    asked = [(key, wanted(0)) for key in keys]
    full = manager.context(17, 0, 0, True, asked, (), lambda _: "t")
    assert not any(full.is_known(key, LogReadResult(high_watermark=5, log_start_offset=0)) for key in keys)
    answers = [
        (key, PartitionData(partition_index=key.partition, high_watermark=5, log_start_offset=0, records=b""))
        for key in keys
    ]
    _, session, _ = full.finish(answers)
    later = manager.context(17, session, 1, True, (), [keys[1]], lambda _: "t")
    for high_watermark, log_start, is_known in ((5, 0, True), (6, 0, False), (5, 1, False)):
        result = LogReadResult(high_watermark=high_watermark, log_start_offset=log_start)
        assert later.is_known(keys[0], result) is is_known
    assert later.is_known(keys[1], LogReadResult(high_watermark=9, log_start_offset=0))  # forgotten
