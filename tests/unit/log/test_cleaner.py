from __future__ import annotations

import errno
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.appends import append_as_leader
from log.cleaner.cleanable import cleanable_offsets, is_candidate, log_to_clean
from log.cleaner.cleaner_threads import CleanerConfig, LogCleaner, Throttler
from log.cleaner.cleaning_pass import Cleaner
from log.cleaner.manager import CleanerManager
from log.cleaner.offset_map import OffsetMap
from log.cleaner.plan import group_segments, plan_cleaning
from log.config import LogConfig
from log.errors import LogCleaningAbortedError, LogError
from log.partition_log import PartitionLog
from log.records.batch import RecordBatch
from log.records.record import ControlType, EndTxnMarker, Record, build_end_txn_marker, iter_records
from log.records.validation import AppendOrigin
from tests.support.batches import build_batch, iter_batches
from tests.unit.log.golden import SMALL
from tests.unit.log.harness import TP, Harness, contents
from timer.clock import ManualClock

COMPACT = LogConfig(
    segment_bytes=400,
    index_interval_bytes=100,
    segment_index_bytes=1200,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=1000,
    min_cleanable_dirty_ratio=0.0,
)


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path, COMPACT)


def _open(harness: Harness, **kwargs: Any) -> PartitionLog:
    log = harness.open(**kwargs)
    log.update_high_watermark(log.log_end_offset)
    return log


def _put(log: PartitionLog, *pairs: tuple[bytes | None, bytes | None], timestamp: int = 1_000, **options: Any) -> None:
    records = [Record(i, timestamp, key, value) for i, (key, value) in enumerate(pairs)]
    origin = AppendOrigin.CLIENT if options or all(key is not None for key, _ in pairs) else AppendOrigin.COORDINATOR
    append_as_leader(log, build_batch(records, **options), 0, origin)
    log.update_high_watermark(log.log_end_offset)


def _marker(log: PartitionLog, kind: ControlType, pid: int = 1, epoch: int = 0) -> None:
    append_as_leader(log, build_end_txn_marker(pid, epoch, EndTxnMarker(kind, 0), 1_000), 0, AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)


def _cleaner(log: PartitionLog, harness: Harness, **kwargs: Any) -> LogCleaner:
    return LogCleaner(lambda: [log], lambda: [str(harness.directory)], harness.clock, **kwargs)


def _clean(log: PartitionLog, harness: Harness, start: int = 0) -> int:
    now = harness.clock.wall_ms()
    target = log_to_clean(log, cleanable_offsets(log, start, now), now)
    cleaner = Cleaner(1 << 20, 0.9, 4096, lambda tp: None, lambda size: None)
    return cleaner.clean(target, now)[0]


def _records(log: PartitionLog) -> list[Record]:
    found = []
    for segment in log.segments:
        for _, data in segment.records.batches():
            for batch in iter_batches(data):
                assert batch.is_valid()
                found += [r for r in iter_records(batch) if not batch.is_control]
    return found


def _pairs(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(r.offset, r.key, r.value) for r in _records(log)]


def _markers(log: PartitionLog) -> list[int]:
    batches = [b for s in log.segments for _, data in s.records.batches() for b in iter_batches(data)]
    return [batch.base_offset for batch in batches if batch.is_control]


def test_memory_that_is_not_there_is_no_failure_of_a_disk(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _open(harness)
    _put(log, *[(b"k", b"v%d" % number) for number in range(20)])
    log.roll()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    cleaner = _cleaner(log, harness)
    with monkeypatch.context() as patch:
        patch.setattr("mmap.mmap", refuse)
        with pytest.raises(MemoryError, match="dedupe"):
            OffsetMap(1 << 20)
        cleaner.step()
    assert cleaner.manager.is_uncleanable(log)
    assert not harness.failures


# Cleaning


def test_last_value_of_each_key_stays(harness: Harness) -> None:
    log = _open(harness)
    for i in range(30):
        _put(log, (b"k%d" % (i % 3), b"v%d" % i + b"x" * 40))
    log.roll()
    before = log.log_end_offset
    assert _clean(log, harness) == before
    assert [(key, value[:3]) for _, key, value in _pairs(log)] == [(b"k0", b"v27"), (b"k1", b"v28"), (b"k2", b"v29")]  # type: ignore[index]
    # The next pass joins the small segments that this one has left.
    _clean(log, harness)
    assert log.number_of_segments < 5
    harness.tick(100_000)
    assert not list(harness.partition_dir.glob("*.deleted"))
    harness.stop(log)
    again = _open(harness)
    assert (len(_pairs(again)), again.log_end_offset) == (3, before)


def test_the_active_segment_and_undecided_data_are_left_alone(harness: Harness) -> None:
    log = _open(harness)
    _put(log, (b"k", b"1"))
    log.roll()
    _put(log, (b"k", b"2"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=False)
    log.roll()
    _put(log, (b"k", b"3"))
    log.update_high_watermark(log.log_end_offset)
    assert _clean(log, harness) == 2
    assert [value for _, _, value in _pairs(log)] == [b"2", b"3"]


def test_tombstones_go_after_the_horizon(harness: Harness) -> None:
    log = _open(harness)
    _put(log, (b"a", b"1"), (b"b", b"2"))
    _put(log, (b"a", None))
    log.roll()
    _clean(log, harness)
    assert _pairs(log) == [(1, b"b", b"2"), (2, b"a", None)]
    (batch,) = [
        b for b in iter_batches(log.segments[0].records.range(0, log.segments[0].size).read()) if b.base_offset == 2
    ]
    assert batch.delete_horizon_ms == harness.clock.wall_ms() + 1000
    assert [r.timestamp for r in iter_records(batch)] == [1000]
    harness.tick(999)
    _clean(log, harness)
    assert len(_pairs(log)) == 2
    harness.tick(1)
    _clean(log, harness)
    assert _pairs(log) == [(1, b"b", b"2")]


def test_records_without_a_key_go(harness: Harness) -> None:
    log = _open(harness)
    _put(log, (None, b"1"), (b"k", b"2"))
    log.roll()
    _clean(log, harness)
    assert _pairs(log) == [(1, b"k", b"2")]


def test_aborted_data_goes_and_its_marker_two_passes_later(harness: Harness) -> None:
    log = _open(harness)
    log.producers.config.transaction_verification_enable = False
    _put(log, (b"k", b"committed"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    _marker(log, ControlType.COMMIT)
    _put(log, (b"k", b"aborted"), producer_id=1, producer_epoch=0, base_sequence=1, transactional=True)
    _marker(log, ControlType.ABORT)
    _put(log, (b"other", b"x"), producer_id=1, producer_epoch=1, base_sequence=0)
    log.roll()
    _clean(log, harness)
    assert [value for _, _, value in _pairs(log)] == [b"committed", b"x"]
    assert [t.first_offset for s in log.segments for t in s.txn_index] == [2]
    assert _markers(log) == [1, 3]
    _clean(log, harness)
    assert _markers(log) == [1, 3]
    assert [t for s in log.segments for t in s.txn_index] == []
    harness.tick(1000)
    _clean(log, harness)
    assert _markers(log) == [1]


def test_the_last_batch_of_a_producer_stays_empty(harness: Harness) -> None:
    log = _open(harness)
    now = harness.clock.wall_ms()
    _put(log, (b"k", b"1"), timestamp=now, producer_id=7, producer_epoch=0, base_sequence=5)
    _put(log, (b"k", b"2"))
    log.roll()
    _clean(log, harness)
    data = log.segments[0].records.range(0, log.segments[0].size).read()
    empty = next(iter_batches(data))
    assert (empty.size_in_bytes, empty.record_count, empty.producer_id, empty.last_sequence) == (61, 0, 7, 5)
    assert (empty.base_timestamp, empty.max_timestamp) == (-1, now)
    harness.stop(log)
    again = _open(harness, clean=False)
    entry = again.producers.last_entry(7)
    assert entry is not None
    assert entry.last_sequence == 5


def test_a_full_map_stops_early_and_the_next_pass_goes_on(harness: Harness) -> None:
    log = _open(harness)
    for i in range(20):
        _put(log, (b"k%d" % (i % 10), b"v%d" % i))
    log.roll()
    cleaner = Cleaner(24 * 4, 1.0, 4096, lambda tp: None, lambda size: None)
    position, passes = 0, 0
    while position < log.log_end_offset:
        now = harness.clock.wall_ms()
        end, _ = cleaner.clean(log_to_clean(log, cleanable_offsets(log, position, now), now), now)
        assert end > position
        position, passes = end, passes + 1
    assert passes == 5
    assert sorted(value for _, _, value in _pairs(log)) == sorted(b"v%d" % i for i in range(10, 20))  # type: ignore[type-var]


keys = st.sampled_from([b"a", b"b", b"c", b"d"])
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"), st.lists(st.tuples(keys, st.none() | st.binary(max_size=30)), min_size=1, max_size=4)
        ),
        st.tuples(st.just("roll"), st.none()),
        st.tuples(st.just("clean"), st.none()),
        st.tuples(st.just("reopen"), st.booleans()),
        st.tuples(st.just("wait"), st.integers(1, 2000)),
    ),
    max_size=25,
)


@given(steps)
@settings(max_examples=30, deadline=None)
def test_whatever_happens_the_table_is_kept(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, Any]]
) -> None:
    """A reader that replays the log gets the newest value of each key."""
    harness = Harness(tmp_path_factory.mktemp("log"), COMPACT)
    log = _open(harness)
    model: dict[bytes, bytes | None] = {}
    position = 0
    for kind, argument in operations:
        if kind == "put":
            _put(log, *argument)
            model |= dict(argument)
        elif kind == "roll":
            log.roll()
        elif kind == "clean":
            position = max(position, _clean(log, harness, position))
        elif kind == "wait":
            harness.tick(argument)
        else:
            end = log.log_end_offset
            if argument:
                harness.stop(log)
            else:
                log.close_handles()
            log = _open(harness, clean=argument)
            assert log.log_end_offset == end
        table: dict[bytes | None, bytes | None] = {}
        for record in _records(log):
            table[record.key] = record.value
        live = {key: value for key, value in model.items() if value is not None}
        assert {key: value for key, value in table.items() if value is not None} == live
    log.close_handles()


# Crashes


class _Crash(BaseException):
    pass


def test_a_crash_at_any_step_of_the_swap_loses_nothing(tmp_path: Path) -> None:
    steps_seen = 0
    crash_at = 0
    while True:
        harness = Harness(tmp_path / str(crash_at), COMPACT)
        log = _open(harness)
        for i in range(12):
            _put(log, (b"k%d" % (i % 3), b"v%02d" % i + b"x" * 30))
        log.roll()
        log.flush(force_active=True)
        seen = 0

        def on_step(step: str, crash_at: int = crash_at, harness: Harness = harness) -> None:
            nonlocal seen
            seen += 1
            if seen > crash_at:
                # What is on the disk now is what a restart finds.
                shutil.copytree(harness.partition_dir, tmp_path / f"copy{crash_at}" / harness.partition_dir.name)
                raise _Crash

        now = harness.clock.wall_ms()
        target = log_to_clean(log, cleanable_offsets(log, 0, now), now)
        try:
            Cleaner(1 << 20, 0.9, 4096, lambda tp: None, lambda size: None, on_step).clean(target, now)
        except _Crash:
            copy = Harness(tmp_path / f"copy{crash_at}", COMPACT)
            again = _open(copy, clean=False)
            assert again.log_end_offset == 12
            table = {key: value[:3] for _, key, value in _pairs(again)}  # type: ignore[index]
            assert table == {b"k0": b"v09", b"k1": b"v10", b"k2": b"v11"}
            names = [path.name for path in copy.partition_dir.iterdir()]
            assert not [name for name in names if name.endswith((".swap", ".cleaned", ".deleted"))]
            _clean(again, copy)
            assert len(_pairs(again)) == 3
            again.close_handles()
        else:
            steps_seen = seen
            break
        crash_at += 1
    assert steps_seen > 5


# Choosing


def test_what_can_be_cleaned(harness: Harness) -> None:
    log = _open(harness)
    for i in range(12):
        _put(log, (b"k", b"x" * 100), timestamp=1000 + i)
    now = harness.clock.wall_ms()
    active = log.active_segment.base_offset
    offsets = cleanable_offsets(log, None, now)
    assert (offsets.first_dirty_offset, offsets.first_uncleanable_offset, offsets.reset_checkpoint) == (
        0,
        active,
        False,
    )
    target = log_to_clean(log, offsets, now)
    assert (target.clean_bytes, target.dirty_ratio, target.cleanable_end) == (0, 1.0, active)
    assert is_candidate(target)
    beyond = cleanable_offsets(log, 99, now)
    assert (beyond.first_dirty_offset, beyond.reset_checkpoint) == (0, True)
    log.update_config(replace(COMPACT, min_compaction_lag_ms=now - 1004))
    limit = cleanable_offsets(log, None, now).first_uncleanable_offset
    assert 0 < limit < active
    assert limit in log.local.segments.base_offsets()


def test_the_maximum_lag_forces(harness: Harness) -> None:
    log = _open(harness)
    for i in range(12):
        _put(log, (b"k", b"x" * 100), timestamp=harness.clock.wall_ms() - 100 + i)
    log.update_config(replace(COMPACT, min_cleanable_dirty_ratio=1.0))
    now = harness.clock.wall_ms()
    assert not is_candidate(log_to_clean(log, cleanable_offsets(log, None, now), now))
    log.update_config(replace(COMPACT, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=50))
    target = log_to_clean(log, cleanable_offsets(log, None, now), now)
    assert target.forced
    assert is_candidate(target)


def test_groups_fit_a_segment(harness: Harness) -> None:
    log = _open(harness)
    for _ in range(20):
        _put(log, (b"k", b"x" * 100))
    config = replace(COMPACT, segment_bytes=900)
    now = harness.clock.wall_ms()
    target = log_to_clean(log, cleanable_offsets(log, None, now), now)
    segments = plan_cleaning(target, now, map_memory=1 << 20, load_factor=0.9, io_buffer_size=4096).segments
    assert [segment.base_offset for segment in segments] == [segment.base_offset for segment in log.segments[:-1]]
    groups = group_segments(segments, config, log.log_end_offset)
    assert [segment for group in groups for segment in group] == segments
    assert all(sum(s.size for s in group) <= 900 for group in groups)
    assert any(len(group) > 1 for group in groups)


# The service


def test_step_cleans_and_remembers(harness: Harness) -> None:
    log = _open(harness)
    for i in range(12):
        _put(log, (b"k", b"%d" % i + b"x" * 100))
    cleaner = _cleaner(log, harness)
    assert cleaner.step() == 0
    assert cleaner.step() == cleaner.config.backoff_ms
    text = (harness.directory / "cleaner-offset-checkpoint").read_text()
    assert text == f"0\n1\ntopic 0 {log.active_segment.base_offset}\n"
    cleaner.manager.maybe_truncate_position(str(harness.directory), TP, 5)
    assert (harness.directory / "cleaner-offset-checkpoint").read_text() == "0\n1\ntopic 0 5\n"
    cleaner.manager.update_position(str(harness.directory), TP, None)
    assert (harness.directory / "cleaner-offset-checkpoint").read_text() == "0\n0\n"


def test_retention_of_compacted_logs(tmp_path: Path) -> None:
    harness = Harness(tmp_path, replace(COMPACT, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=10))
    log = _open(harness)
    for i in range(12):
        _put(log, (b"k%d" % i, b"x" * 100), timestamp=1)
    _cleaner(log, harness).step()
    assert log.number_of_segments == 1
    assert log.log_start_offset > 0


def test_a_paused_log_is_not_chosen(harness: Harness) -> None:
    log = _open(harness)
    for _ in range(12):
        _put(log, (b"k", b"x" * 100))
    manager = CleanerManager(lambda: [log], harness.clock)
    manager.abort_and_pause(TP)
    manager.abort_and_pause(TP)
    assert manager.grab_filthiest() is None
    manager.resume(TP)
    assert manager.grab_deletable() == []
    manager.resume(TP)
    with pytest.raises(LogError):
        manager.resume(TP)
    target = manager.grab_filthiest()
    assert target is not None
    assert manager.grab_filthiest() is None
    with pytest.raises(LogError):
        manager.abort_and_pause(TP, timeout_ms=0)
    with pytest.raises(LogCleaningAbortedError):
        manager.check_not_aborted(TP)
    manager.done_cleaning(log, 5)
    assert manager.state_of(TP) == 1
    assert manager.positions([str(harness.directory)]) == {}


def test_a_corrupt_batch_makes_the_log_uncleanable(harness: Harness) -> None:
    log = _open(harness)
    for _ in range(12):
        _put(log, (b"k", b"x" * 100))
    path = Path(log.segments[0].path)
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)
    cleaner = _cleaner(log, harness)
    assert cleaner.step() == cleaner.config.backoff_ms
    assert cleaner.manager.is_uncleanable(log)
    assert cleaner.manager.uncleanable_count(str(harness.directory)) == 1
    assert cleaner.manager.uncleanable_bytes(str(harness.directory)) > 0
    assert not list(harness.partition_dir.glob("*.cleaned"))
    assert path.read_bytes() == data


def test_threads_stop(harness: Harness) -> None:
    log = _open(harness)
    cleaner = _cleaner(log, harness, config=CleanerConfig(threads=2))
    cleaner.startup()
    cleaner.reconfigure(CleanerConfig(threads=1))
    assert cleaner.dead_threads == 0
    cleaner.shutdown()
    with pytest.raises(ValueError):
        CleanerConfig(threads=200).check()


def test_throttle_waits_for_the_rate() -> None:
    clock = ManualClock()
    waits: list[float | None] = []
    clock.wait = lambda condition, timeout_ms: waits.append(timeout_ms)  # type: ignore[method-assign, assignment, return-value]
    throttle = Throttler(1000, clock)
    throttle(100)
    assert waits == []
    throttle(900)
    assert waits == [1000]
    clock.advance(5000)
    throttle(400)
    assert waits == [1000]


# Kafka's own results


def _golden_batches(stage: str) -> list[RecordBatch]:
    directory = SMALL / stage / "data" / "compact-0"
    return [b for path in sorted(directory.glob("*.log")) for b in iter_batches(path.read_bytes())]


def test_cleaning_a_golden_log_gives_what_kafka_made_of_it(tmp_path: Path) -> None:
    source = SMALL / "1_clean" / "data" / "compact-0"
    config = replace(COMPACT, segment_bytes=1_048_576, delete_retention_ms=3000)
    harness = Harness(tmp_path, config)
    shutil.copytree(source, harness.partition_dir)
    wanted = _golden_batches("2_clean_after_compaction")
    horizon = next(b.delete_horizon_ms for b in wanted if b.delete_horizon_ms is not None)
    harness.clock.advance(horizon - 3000 - harness.clock.wall_ms())
    log = _open(harness)
    # What was appended between the captures is not in the first one.
    log.roll()
    _clean(log, harness)
    ours = [b for s in log.segments for _, d in s.records.batches() for b in iter_batches(d)]
    assert [_described(batch) for batch in ours] == [_described(batch) for batch in wanted]
    same = sum(bytes(batch.view) == bytes(other.view) for batch, other in zip(ours, wanted, strict=True))
    assert same == sum(not batch.codec for batch in wanted) or same == len(wanted)


def _described(batch: RecordBatch) -> tuple[object, ...]:
    return (batch.base_offset, batch.last_offset, batch.delete_horizon_ms, batch.attributes, list(iter_records(batch)))


@pytest.mark.parametrize("step", ["cleaned", "swap", "deleted", "renamed"])
def test_an_io_error_takes_the_directory_offline_and_loses_nothing(harness: Harness, step: str) -> None:
    log = _open(harness)
    for i in range(12):
        _put(log, (b"k%d" % (i % 2), b"%02d" % i + b"x" * 80))
    log.flush(force_active=True)
    end = log.log_end_offset

    def fail(done: str) -> None:
        if done == step:
            raise OSError(28, "No space left on device")

    cleaner = LogCleaner(lambda: [log], lambda: [str(harness.directory)], harness.clock, on_step=fail)
    assert cleaner.step() == cleaner.config.backoff_ms
    assert len(harness.failures) == 1
    assert "No space left" in harness.failures[0]
    assert cleaner.manager.positions([str(harness.directory)]) == {}
    assert not list(harness.partition_dir.glob("*.cleaned"))
    log.close_handles()
    again = _open(Harness(harness.directory, COMPACT), clean=False)
    assert again.log_end_offset == end
    table = {key: value[:2] for _, key, value in _pairs(again)}  # type: ignore[index]
    assert table == {b"k0": b"10", b"k1": b"11"}
    again.close_handles()


@pytest.mark.parametrize("crash_at", [None, "swap", "deleted", "renamed"])
def test_a_segment_that_spans_too_much_is_split_and_then_cleaned(harness: Harness, crash_at: str | None) -> None:
    """Old brokers could leave such a segment; with a clean stop and its indexes in place it is not split at load."""
    offsets = [0, 10, 2**31 + 5, 2**31 + 6, 2**32 + 9]
    data = [
        build_batch([Record(offset, 1_000, b"k%d" % (number % 2), b"%d" % offset)], base_offset=offset)
        for number, offset in enumerate(offsets)
    ]
    harness.partition_dir.mkdir()
    for suffix, content in ((".log", b"".join(data)), (".index", b""), (".timeindex", struct.pack(">qi", 1_000, 0))):
        (harness.partition_dir / f"{0:020d}{suffix}").write_bytes(content)
    log = _open(harness)
    assert [segment.has_overflow for segment in log.segments] == [True]
    log.roll()
    log.update_high_watermark(log.log_end_offset)

    class Crash(Exception):
        pass

    def step(name: str) -> None:
        if name == crash_at:
            raise Crash

    cleaner = LogCleaner(lambda: [log], lambda: [str(harness.directory)], harness.clock, on_step=step)
    cleaner.step()
    if crash_at is not None:
        log.close_handles()
        log = _open(harness, clean=False)
        cleaner = _cleaner(log, harness)
    assert not cleaner.manager.is_uncleanable(log)
    assert [r[0] for r in contents(log)] == offsets
    assert [s.base_offset for s in log.segments] == [0, 2**31 + 5, 2**32 + 9, 2**32 + 10]
    assert cleaner.step() == 0
    assert [r[0] for r in contents(log)] == [2**31 + 6, 2**32 + 9]
