"""A log against a model of it: appends, rolls, truncations, retention, clean stops and crashes in any order."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from log.appends import append_as_follower, append_as_leader
from log.config import LogConfig
from log.earlier_batches import MAX_INDEX_ENTRIES
from log.errors import OutOfOrderSequenceError
from log.fetch_data import FetchIsolation
from log.management.retention import delete_old_segments
from log.offset_lookup import fetch_offset_by_timestamp
from log.producer_entry import NUM_BATCHES_TO_RETAIN
from log.records.record import Record, iter_records
from log.records.validation import check_for_follower
from log.truncation import truncate_fully_and_start_at, truncate_to
from tests.support.batches import build_batch
from tests.unit.log.harness import Harness, batch

CONFIG = LogConfig(
    segment_bytes=700, index_interval_bytes=150, segment_index_bytes=600, retention_bytes=1500, retention_ms=-1
)
START_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Batch:
    """What the model knows of one batch. `sequence` is -1 without a producer."""

    base: int
    last: int
    records: tuple[tuple[int, int, bytes], ...]
    epoch: int
    size: int
    producer: int = -1
    sequence: int = -1

    @property
    def max_timestamp(self) -> int:
        return max(timestamp for _, timestamp, _ in self.records)


values = st.lists(st.binary(max_size=60), min_size=1, max_size=4)
fraction = st.floats(0, 1)


class LogModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        base = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.directory = Path(tempfile.mkdtemp(prefix="log-model-", dir=base))
        self.harness = Harness(self.directory, CONFIG)
        self.log = self.harness.open()
        self.batches: list[Batch] = []
        self.start = 0
        self.end = 0
        self.mark = 0
        self.epoch = 0
        self.sequences: dict[int, int] = {}

    def teardown(self) -> None:
        self.log.close_handles()
        shutil.rmtree(self.directory)

    # ---- appending

    def _stored(self, data: bytes | bytearray, base: int, **extra: int) -> Batch:
        stored = check_for_follower(bytes(data)).batches[0]
        records = tuple((r.offset, r.timestamp, r.value or b"") for r in iter_records(stored))
        return Batch(base, stored.last_offset, records, stored.partition_leader_epoch, len(data), **extra)

    @rule(found=values, late=st.integers(-500, 5000), new_epoch=st.booleans())
    def append(self, found: list[bytes], late: int, new_epoch: bool) -> None:
        self.epoch += new_epoch
        data = batch(*found, timestamp=START_MS + self.end * 100 + late)
        info = append_as_leader(self.log, memoryview(data), self.epoch)
        assert (info.first_offset, info.last_offset) == (self.end, self.end + len(found) - 1)
        self._took(self._stored(data, self.end))

    def _took(self, stored: Batch) -> None:
        self.batches.append(stored)
        self.end = stored.last + 1

    @rule(found=st.lists(values, min_size=1, max_size=3), gaps=st.lists(st.integers(0, 5), min_size=3, max_size=3))
    def append_as_follower(self, found: list[list[bytes]], gaps: list[int]) -> None:
        """Batches of a compacted leader: there are gaps between them, and inside."""
        parts: list[tuple[bytearray, int]] = []
        offset = self.end
        for value, gap in zip(found, gaps, strict=False):
            base = offset + gap
            records = [Record(base + i * (1 + gap % 2), START_MS + base, b"k", v) for i, v in enumerate(value)]
            parts.append((build_batch(records, base_offset=base, partition_leader_epoch=self.epoch), base))
            offset = records[-1].offset + 1
        info = append_as_follower(self.log, b"".join(data for data, _ in parts))
        assert info.last_offset == offset - 1
        for data, base in parts:
            self._took(self._stored(data, base))

    @rule(producer=st.integers(1, 3), found=values)
    def produce(self, producer: int, found: list[bytes]) -> None:
        """The next batch of an idempotent producer; and again, as after a lost answer."""
        sequence = self.sequences.get(producer, 0)
        options: dict[str, Any] = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        data = batch(*found, timestamp=START_MS + self.end, **options)
        retry = bytes(data)
        info = append_as_leader(self.log, memoryview(data), self.epoch)
        assert not info.duplicate
        self._took(self._stored(data, self.end, producer=producer, sequence=sequence))
        self.sequences[producer] = sequence + len(found)
        again = append_as_leader(self.log, retry, self.epoch)
        assert again.duplicate
        assert (again.first_offset, again.last_offset) == (info.first_offset, info.last_offset)

    @rule(producer=st.integers(1, 3))
    def produce_out_of_order(self, producer: int) -> None:
        if not any(b.producer == producer for b in self.batches):
            return
        options: dict[str, Any] = {
            "producer_id": producer,
            "producer_epoch": 0,
            "base_sequence": self.sequences[producer] + 5,
        }
        try:
            append_as_leader(self.log, batch(b"x", **options), self.epoch)
        except OutOfOrderSequenceError:
            return
        raise AssertionError("a gap in the sequence was accepted")

    @rule(producer=st.integers(1, 3), back=st.integers(1, NUM_BATCHES_TO_RETAIN))
    def retry_of_a_recent_batch(self, producer: int, back: int) -> None:
        """Known as such whatever has happened since, as long as the batch is in the log, and not too far back there."""
        near = self.batches[-MAX_INDEX_ENTRIES // 2 :]  # each batch may have an index entry, and each segment is a step
        own = [each for each in near if each.producer == producer]
        if len(own) < back:
            return
        known = own[-back]
        found = [value for _, _, value in known.records]
        options: dict[str, Any] = {"producer_id": producer, "producer_epoch": 0, "base_sequence": known.sequence}
        info = append_as_leader(self.log, batch(*found, **options), self.epoch)
        assert info.duplicate
        assert (info.first_offset, info.last_offset) == (known.base, known.last)

    # ---- changing the log's shape

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule(at=fraction)
    def raise_high_watermark(self, at: float) -> None:
        self.mark = max(self.mark, self.start + int(at * (self.end - self.start)))
        assert self.log.update_high_watermark(self.mark) == self.mark

    @rule(at=fraction)
    def delete_records(self, at: float) -> None:
        offset = self.start + int(at * (self.mark - self.start))
        self.log.maybe_increment_log_start_offset(offset, "test")
        self._starts_at(max(self.start, offset))

    def _starts_at(self, offset: int) -> None:
        self.start = offset
        self.mark = max(self.mark, offset)
        self.batches = [b for b in self.batches if b.last >= offset]

    @rule()
    def retain(self) -> None:
        before = self.log.log_start_offset
        segments = self.log.segments
        delete_old_segments(self.log)
        after = self.log.log_start_offset
        assert after <= self.mark
        if after != before:
            assert after in [s.base_offset for s in self.log.segments]
        removed = [s for s in segments if s not in self.log.segments]
        kept = self.log.size
        # No more goes than must: with the last one removed by size, the log was at or above the limit.
        if removed and removed[-1].base_offset >= before:
            assert kept + removed[-1].size >= CONFIG.retention_bytes
        self._starts_at(after)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        """To the end of a batch, as replication does."""
        ends = [self.start, *(b.last + 1 for b in self.batches)]
        target = ends[max(-1 - back, -len(ends))]
        if any(b.base < target <= b.last for b in self.batches):
            return  # The log start is inside the first batch.
        truncate_to(self.log, target)
        self._cut(target)

    def _cut(self, target: int) -> None:
        if target >= self.end:
            return
        first = self.log.local.segments.first_base_offset
        assert first is not None
        self.batches = [b for b in self.batches if b.last < target]
        self.end = target
        self.start = min(self.start, target)
        self.mark = min(self.mark, target)
        self._reset_sequences()

    def _reset_sequences(self) -> None:
        """A producer goes on behind its last batch that is left; one that has none begins again with another id."""
        for producer in list(self.sequences):
            last = next((b for b in reversed(self.batches) if b.producer == producer), None)
            if last is not None:
                self.sequences[producer] = last.sequence + len(last.records)
            else:
                known = self.log.producers.last_entry(producer)
                self.sequences[producer] = 0 if known is None else known.last_sequence + 1

    @rule(skip=st.integers(0, 50))
    def truncate_fully(self, skip: int) -> None:
        target = self.end + skip
        truncate_fully_and_start_at(self.log, target)
        self.batches, self.sequences = [], {}
        self.start = self.end = self.mark = target

    @rule()
    def run_background_work(self) -> None:
        self.harness.tick(60_000)

    # ---- stops

    @rule()
    def restart(self) -> None:
        self.harness.stop(self.log)
        self.log = self.harness.open(log_start_offset=self.start)
        self._reopened()

    @rule(at=fraction, garbage=st.sampled_from([b"", b"\0", b"\0" * 100, b"\xff" * 61, b"garbage" * 20]))
    def crash(self, at: float, garbage: bytes) -> None:
        """The last segment ends anywhere behind what was flushed, maybe with rubbish; the indexes are as they were."""
        active = self.log.active_segment
        recovery_point = self.log.recovery_point
        path = self.harness.partition_dir / f"{active.base_offset:020d}.log"
        before = path.read_bytes()
        bounds = [(b.position + b.size_in_bytes, b.last_offset + 1) for b in check_for_follower(before).batches]
        safe = max((end for end, offset in bounds if offset <= recovery_point), default=0)
        cut = safe + int(at * (len(before) - safe))
        self.log.close_handles()
        with path.open("r+b") as file:
            file.truncate(cut)
            file.seek(cut)
            file.write(garbage)
        # The rubbish may be just the bytes that were cut off.
        after = path.read_bytes()
        whole = [offset for end, offset in bounds if after[:end] == before[:end]]
        ends = whole[-1] if whole else active.base_offset
        self.log = self.harness.open(clean=False, log_start_offset=self.start, recovery_point=recovery_point)
        if ends < self.start:
            # All that is left lies below the log start: the log goes on there, empty.
            self.batches, self.sequences = [], {}
            ends = self.start
        self.batches = [b for b in self.batches if b.last < ends]
        self.end = ends
        self._reset_sequences()
        self._reopened()

    @precondition(lambda self: self.log.number_of_segments > 1)
    @rule(which=st.integers(0, 20), damage=st.sampled_from(["missing", "zeros", "odd", "ahead"]), unclean=st.booleans())
    def damaged_index(self, which: int, damage: str, unclean: bool) -> None:
        """A sealed segment's index is lost or spoilt while the broker is down."""
        bases = [s.base_offset for s in self.log.segments]
        base = bases[which % len(bases)]
        self.harness.stop(self.log)
        path = self.harness.partition_dir / f"{base:020d}.index"
        if damage == "missing":
            path.unlink()
        elif damage == "zeros":
            path.write_bytes(bytes(64))
        elif damage == "odd":
            path.write_bytes(path.read_bytes() + b"\1\2\3")
        else:
            path.write_bytes(b"\0\0\0\x50\0\1\0\0")
        self.log = self.harness.open(clean=not unclean, log_start_offset=self.start)
        # A producer of which nothing is left is forgotten, or known again from a snapshot below the rebuilt segment.
        self._reset_sequences()
        self._reopened()

    def _reopened(self) -> None:
        self.mark = min(max(self.mark, self.start), self.end)
        assert self.log.high_watermark == self.start
        assert self.log.update_high_watermark(self.mark) == self.mark

    # ---- what must hold

    @invariant()
    def offsets(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.high_watermark == self.mark
        assert log.recovery_point <= self.end
        assert log.last_stable_offset == self.mark
        assert not self.harness.failures
        bases = [s.base_offset for s in log.segments]
        assert bases == sorted(set(bases))

    @rule(at=fraction, limit=st.integers(1, 800), isolation=st.sampled_from([0, 1, 2]))
    def read(self, at: float, limit: int, isolation: int) -> None:
        start = self.start + int(at * (self.end - self.start))
        kind = FetchIsolation(isolation)
        bound = self.end if kind is FetchIsolation.LOG_END else self.mark
        info = self.log.read(start, limit, kind, min_one_message=True)
        data = info.records.read()
        info.records.release()
        got = check_for_follower(data).batches
        wanted = next((b for b in self.batches if b.last >= start), None)
        if wanted is None or start >= bound or wanted.base >= bound:
            assert not got
            return
        # A batch that straddles the bound is not served beyond it.
        if wanted.last < bound:
            assert got
            assert got[0].base_offset == wanted.base
        assert all(b.base_offset < bound for b in got)
        assert sum(b.size_in_bytes for b in got[1:]) <= limit

    @rule()
    def everything(self) -> None:
        expected = [b for b in self.batches if b.last >= self.start]
        found: list[tuple[int, int, tuple[tuple[int, int, bytes], ...], int]] = []
        offset = self.start
        while offset < self.end:
            info = self.log.read(offset, 1 << 20)
            batches = check_for_follower(info.records.read()).batches
            info.records.release()
            if not batches:
                break
            for one in batches:
                records = tuple((r.offset, r.timestamp, r.value or b"") for r in iter_records(one))
                found.append((one.base_offset, one.last_offset, records, one.partition_leader_epoch))
            offset = batches[-1].last_offset + 1
        assert found == [(b.base, b.last, b.records, b.epoch) for b in expected]

    @rule(late=st.integers(-2000, 20_000))
    def by_time(self, late: int) -> None:
        target = START_MS + self.start * 100 + late
        found = fetch_offset_by_timestamp(self.log, target)
        records = [r for b in self.batches for r in b.records if r[0] >= self.start]
        later = [r for r in records if r[1] >= target]
        if found is None:
            # The first segment whose maximum is high enough may have its record below the log start.
            assert not later or self._maximum_below_start(target)
        else:
            assert (found.offset, found.timestamp) in [(r[0], r[1]) for r in later]
            assert found.offset == later[0][0]

    def _maximum_below_start(self, target: int) -> bool:
        first = next((s for s in self.log.segments if s.largest_timestamp >= target), None)
        return first is not None and first.base_offset < self.start

    @rule(back=st.integers(0, 3))
    def epochs(self, back: int) -> None:
        """Every epoch in the log ends where the next one's first batch begins."""
        known = [e.epoch for e in self.log.leader_epoch_cache.entries]
        assert known == sorted(set(known))
        in_log = [b for b in self.batches if b.last >= self.start]
        for earlier, later in pairwise(in_log):
            if earlier.epoch != later.epoch:
                assert self.log.end_offset_for_epoch(earlier.epoch)[1] <= later.base


TestLogModel = LogModel.TestCase
TestLogModel.settings = settings(
    max_examples=80,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_producers_survive_the_rebuild_of_an_earlier_segment() -> None:
    """Found by the model: an index that is missing after a clean stop cost the producers of later segments."""
    state = LogModel()
    state.append_as_follower(found=[[b""], [b""]], gaps=[0, 0, 0])
    for _ in range(5):
        state.produce(found=[b""], producer=1)
    state.append_as_follower(found=[[b""], [b""], [b"", b"", b""]], gaps=[1, 0, 0])
    state.damaged_index(damage="missing", unclean=False, which=0)
    state.retry_of_a_recent_batch(producer=1, back=1)
    state.produce_out_of_order(producer=1)
    state.teardown()


def test_a_high_watermark_in_a_hole_before_the_log_end_hides_nothing_below_it() -> None:
    """Found by the model: the batch behind the hole is lost in a crash, and what is left ends with an empty segment."""
    state = LogModel()
    for _ in range(20):
        state.append_as_follower(found=[[b""]], gaps=[1, 0, 0])
        if state.log.active_segment.base_offset:
            break
    hole = state.batches[-2].last + 1
    state.raise_high_watermark(at=(hole + 0.5) / state.end)
    state.crash(at=0.0, garbage=b"")
    state.offsets()
    assert (state.mark, state.end) == (hole, hole + 1)
    state.read(at=0.0, isolation=1, limit=1)
    state.read(at=0.99, isolation=0, limit=1)
    state.teardown()
