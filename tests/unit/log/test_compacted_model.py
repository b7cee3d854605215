"""A compacted, transactional log against a model: what a read_committed consumer makes of it stays the same.

Producers write in and outside of transactions, decide them or leave them open; the cleaner runs at any moment; the log
is rolled, stopped cleanly, killed, and its clock moves over delete horizons.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from log.appends import append_as_leader
from log.cleaner.cleaner_threads import LogCleaner
from log.config import LogConfig
from log.fetch_data import FetchIsolation
from log.records.batch import RecordBatch
from log.records.record import ControlType, EndTxnMarker, Record, build_end_txn_marker, iter_records
from log.records.validation import AppendOrigin, check_for_follower
from tests.support.batches import build_batch
from tests.unit.log.harness import Harness

HORIZON_MS = 1000
CONFIG = LogConfig(
    segment_bytes=600,
    index_interval_bytes=150,
    segment_index_bytes=600,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=HORIZON_MS,
    min_cleanable_dirty_ratio=0.0,
)
KEYS = [b"a", b"b", b"c", b"d", b"e"]
PRODUCERS = [1, 2, 3]


@dataclass
class Written:
    """One record; `state` is that of its transaction: committed (also without one), aborted or open."""

    key: bytes
    value: bytes | None
    producer: int
    state: str = "committed"


pairs = st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=5)
producers = st.sampled_from(PRODUCERS)


class CompactedModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        base = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.directory = Path(tempfile.mkdtemp(prefix="compacted-model-", dir=base))
        self.harness = Harness(self.directory, CONFIG)
        self.written: dict[int, Written] = {}
        self.end = 0
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.last_batch: dict[int, tuple[int, int, int]] = {}
        self.open_since: dict[int, int] = {}
        self.number = 0
        self.cleaner: LogCleaner
        self._open(clean=True)

    def teardown(self) -> None:
        self.log.close_handles()
        shutil.rmtree(self.directory)

    def _open(self, *, clean: bool, recovery_point: int = 0) -> None:
        self.log = self.harness.open(clean=clean, recovery_point=recovery_point)
        self.log.producers.config = replace(self.log.producers.config, transaction_verification_enable=False)
        self.log.update_high_watermark(self.log.log_end_offset)
        # Without a thread: a step of it is a step of the model.
        self.cleaner = LogCleaner(lambda: [self.log], lambda: [str(self.directory)], self.harness.clock)

    # ---- writing

    def _records(self, found: list[tuple[bytes, bool]]) -> list[Record]:
        records = []
        for at, (key, deletes) in enumerate(found):
            self.number += 1
            records.append(
                Record(at, self.harness.clock.wall_ms(), key, None if deletes else b"%d " % self.number * 12)
            )
        return records

    def _append(self, records: list[Record], producer: int, *, transactional: bool) -> None:
        options: dict[str, int | bool] = {}
        if producer:
            options = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": self.sequences[producer],
                "transactional": transactional,
            }
        info = append_as_leader(self.log, build_batch(records, **options), 0)  # type: ignore[arg-type]
        assert not info.duplicate
        assert (info.first_offset, info.last_offset) == (self.end, self.end + len(records) - 1)
        state = "open" if transactional else "committed"
        for record in records:
            assert record.key is not None
            self.written[self.end + record.offset] = Written(record.key, record.value, producer, state)
        if producer:
            self.last_batch[producer] = (self.sequences[producer], info.first_offset, info.last_offset)
            self.sequences[producer] += len(records)
        self.end = info.last_offset + 1
        self.log.update_high_watermark(self.end)

    @rule(found=pairs)
    def write(self, found: list[tuple[bytes, bool]]) -> None:
        self._append(self._records(found), 0, transactional=False)

    @rule(found=pairs, producer=producers)
    def write_idempotently(self, found: list[tuple[bytes, bool]], producer: int) -> None:
        if producer not in self.open_since:
            self._append(self._records(found), producer, transactional=False)

    @rule(found=pairs, producer=producers)
    def write_in_a_transaction(self, found: list[tuple[bytes, bool]], producer: int) -> None:
        self.open_since.setdefault(producer, self.end)
        self._append(self._records(found), producer, transactional=True)

    @precondition(lambda self: self.open_since)
    @rule(which=st.integers(0, 2), commit=st.booleans())
    def decide(self, which: int, commit: bool) -> None:
        self._decide(sorted(self.open_since)[which % len(self.open_since)], commit)

    @precondition(lambda self: self.open_since)
    @rule(commits=st.tuples(st.booleans(), st.booleans(), st.booleans()))
    def decide_all(self, commits: tuple[bool, bool, bool]) -> None:
        for producer in list(self.open_since):
            self._decide(producer, commits[producer - 1])

    def _decide(self, producer: int, commit: bool) -> None:
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        marker = build_end_txn_marker(producer, 0, EndTxnMarker(kind, 0), self.harness.clock.wall_ms())
        info = append_as_leader(self.log, marker, 0, AppendOrigin.COORDINATOR)
        assert info.first_offset == self.end
        since = self.open_since.pop(producer)
        for offset, record in self.written.items():
            if offset >= since and record.producer == producer and record.state == "open":
                record.state = "committed" if commit else "aborted"
        self.end += 1
        self.log.update_high_watermark(self.end)

    @rule(producer=producers)
    def retry(self, producer: int) -> None:
        """The last batch of a producer is known as such, however much of it the cleaner has taken away."""
        known = self.last_batch.get(producer)
        if known is None:
            return
        sequence, first, last = known
        records = [Record(at, 0, b"a", b"") for at in range(last - first + 1)]
        batch = build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=sequence)
        info = append_as_leader(self.log, batch, 0)
        assert info.duplicate
        assert (info.first_offset, info.last_offset) == (first, last)

    # ---- what happens to it

    @rule(times=st.integers(1, 3), roll=st.booleans())
    def clean(self, times: int, roll: bool) -> None:
        if roll:
            self.log.roll()
        for _ in range(times):
            self.cleaner.step()
        assert self.cleaner.manager.uncleanable_count(str(self.directory)) == 0

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(ms=st.sampled_from([1, HORIZON_MS // 2, HORIZON_MS * 2, 70_000]))
    def time_passes(self, ms: int) -> None:
        self.harness.tick(ms)

    @rule()
    def restart(self) -> None:
        self.harness.stop(self.log)
        self._open(clean=True)

    @rule()
    def crash(self) -> None:
        """Everything written is in the files: the machine lives."""
        recovery_point = self.log.recovery_point
        self.log.close_handles()
        self._open(clean=False, recovery_point=recovery_point)

    # ---- what must hold

    @invariant()
    def offsets(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset, self.log.high_watermark) == (0, self.end, self.end)
        assert self.log.last_stable_offset == min(self.open_since.values(), default=self.end)
        assert not self.harness.failures

    def _batches(self, isolation: FetchIsolation) -> list[tuple[RecordBatch, bool]]:
        """All batches that a consumer gets, with whether it skips them as aborted."""
        found: list[tuple[RecordBatch, bool]] = []
        offset = 0
        bound = self.log.last_stable_offset if isolation is FetchIsolation.TXN_COMMITTED else self.end
        while offset < bound:
            info = self.log.read(offset, 700, isolation, min_one_message=True)
            batches = check_for_follower(info.records.read()).batches
            info.records.release()
            if not batches:
                break
            waiting = sorted(info.aborted_transactions or (), key=lambda txn: txn.first_offset)
            aborting: set[int] = set()
            for batch in batches:
                assert isinstance(batch, RecordBatch)
                while waiting and waiting[0].first_offset <= batch.last_offset:
                    aborting.add(waiting.pop(0).producer_id)
                if batch.is_control:
                    aborting.discard(batch.producer_id)
                found.append((batch, batch.is_transactional and batch.producer_id in aborting))
            offset = batches[-1].last_offset + 1
        return found

    @rule()
    def every_record_is_what_was_written(self) -> None:
        """Records may be gone, but none is changed, moved, or said twice."""
        seen = -1
        for batch, _ in self._batches(FetchIsolation.LOG_END):
            assert batch.is_valid()
            if batch.is_control:
                continue
            for record in iter_records(batch):
                assert record.offset > seen
                seen = record.offset
                was = self.written[record.offset]
                assert (record.key, record.value) == (was.key, was.value)

    @rule()
    def a_consumer_of_what_is_committed(self) -> None:
        stable = self.log.last_stable_offset
        got: dict[int, tuple[bytes | None, bytes | None]] = {}
        for batch, skipped in self._batches(FetchIsolation.TXN_COMMITTED):
            if not batch.is_control and not skipped:
                got |= {record.offset: (record.key, record.value) for record in iter_records(batch)}
        committed = {o: r for o, r in self.written.items() if o < stable and r.state == "committed"}
        # Nothing aborted, nothing open.
        assert set(got) <= set(committed)
        newest = {record.key: offset for offset, record in committed.items()}
        table = {key: committed[offset].value for key, offset in newest.items() if committed[offset].value is not None}
        seen: dict[bytes | None, bytes | None] = {}
        for key, value in got.values():
            seen[key] = value
        assert {key: value for key, value in seen.items() if value is not None} == table
        for offset in newest.values():
            assert committed[offset].value is None or offset in got

    @rule()
    def nothing_undecided_is_cleaned(self) -> None:
        stable = self.log.last_stable_offset
        found = {
            record.offset
            for batch, _ in self._batches(FetchIsolation.LOG_END)
            if not batch.is_control
            for record in iter_records(batch)
        }
        assert {offset for offset in self.written if offset >= stable} <= found


TestCompactedModel = CompactedModel.TestCase
TestCompactedModel.settings = settings(
    max_examples=50,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
