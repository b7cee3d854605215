from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.replication.log_dirs import future_log
from broker.replication.log_dirs.future_log import Progress
from broker.replication.partition import Partition
from log.cleaner.cleaner_threads import CleanerConfig
from log.config import LogConfig
from log.errors import StorageError
from log.management.manager import LogManager, LogManagerSettings
from log.management.retention import delete_old_segments
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from network.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from network.protocol.uuids import ZERO_UUID
from tests.unit.log.harness import SMALL, batch, contents
from timer.chance import SystemChance
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler

TP = TopicPartition("t", 0)


class Broker:
    """A partition with a real log manager over two directories, which outlive it."""

    broker_id = 1
    lag_time_max_ms = 10_000

    def __init__(self, directory: Path, config: LogConfig = SMALL) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.x, self.y = str(directory / "x"), str(directory / "y")
        self.failed: list[str] = []
        self.log_manager = LogManager(
            [self.x, self.y],
            default_config=config,
            topic_configs=lambda topic: {},
            broker_id=1,
            cluster_id="cluster",
            clock=self.clock,
            scheduler=self.scheduler,
            chance=SystemChance(),
            settings=LogManagerSettings(cleaner_enabled=True),
            cleaner_config=CleanerConfig(threads=0),
            on_dir_failure=self.failed.append,
        )
        self.log_manager.startup()
        self.alter_partition: Any = None
        self.delayed: Any = SimpleNamespace(num_delete_records=0, check_all=lambda tp: None)
        self.isr_meters: Any = None

    def is_alive(self, broker_id: int) -> bool:
        return True

    def create_log(self, tp: TopicPartition, topic_id: bytes, *, is_new: bool, is_future: bool) -> PartitionLog:
        return self.log_manager.get_or_create_log(tp, is_new=is_new, is_future=is_future)

    def log_topic_id(self, tp: TopicPartition) -> bytes | None:
        return None

    def lead(self, epoch: int = 1) -> Partition:
        partition = Partition(TP, self)  # type: ignore[arg-type]
        if self.log_manager.get_log(TP) is None:
            self.log_manager.moves.prefer(TP, self.x)
        become(partition, epoch)
        return partition

    def begin(self, partition: Partition) -> None:
        self.log_manager.moves.prefer(TP, self.y)
        assert future_log.begin(partition, self.log_manager, self.y)

    def crash(self) -> None:
        for log in self.log_manager.all_logs():
            log.close_handles()
        for log_dir in self.log_manager._live.values():
            log_dir.unlock(remove=False)


def become(partition: Partition, epoch: int) -> None:
    partition.make_leader(
        LeaderAndIsrPartitionState(
            partition_index=0, leader=1, leader_epoch=epoch, isr=[1], partition_epoch=epoch, replicas=[1], is_new=True
        ),
        ZERO_UUID,
    )


def append(partition: Partition, *values: bytes) -> None:
    partition.append_as_leader(batch(*values), None, 1)  # type: ignore[arg-type]


def follower_append(partition: Partition, epoch: int, *values: bytes) -> None:
    data = batch(*values)
    assert partition.log is not None
    data[0:8] = partition.log.log_end_offset.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    partition.append_as_follower(data)


def copy_all(partition: Partition, max_bytes: int = 300) -> None:
    for _ in range(10_000):
        if future_log.copy_slice(partition, max_bytes).progress is Progress.CAUGHT_UP:
            return
    raise AssertionError("the copy does not come to an end")


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def test_a_move_while_records_come(broker: Broker) -> None:
    partition = broker.lead()
    for number in range(60):
        append(partition, b"%d" % number)
    old = partition.log
    assert old is not None
    assert old.parent_dir == broker.x
    old.maybe_increment_log_start_offset(3, "test")
    broker.begin(partition)
    future = partition.future_log
    assert future is not None
    assert future.is_future
    assert future.parent_dir == broker.y
    number = 60
    while future_log.copy_slice(partition, 500).progress is not Progress.CAUGHT_UP:
        append(partition, b"%d" % number)
        number += 1
    append(partition, b"%d" % number)  # between the last slice and the exchange
    assert future_log.exchange(partition, broker.log_manager, 1 << 16)
    assert partition.log is future
    assert partition.future_log is None
    assert contents(future) == [(n, b"%d" % n) for n in range(3, number + 1)]
    assert (future.log_start_offset, future.high_watermark) == (3, number + 1)
    assert future.directory == f"{broker.y}/t-0"
    assert not Path(broker.x, "t-0").exists()
    assert len(list(Path(broker.x).glob("t-0.*-delete"))) == 1
    assert Path(broker.x, "recovery-point-offset-checkpoint").read_text() == "0\n0\n"
    assert Path(broker.y, "recovery-point-offset-checkpoint").read_text().startswith("0\n1\nt 0 ")
    assert Path(broker.y, "log-start-offset-checkpoint").read_text() == "0\n0\n"  # as the first segment says
    append(partition, b"after")
    assert contents(future)[-1] == (number + 1, b"after")
    assert broker.log_manager.cleaner is not None
    assert broker.log_manager.cleaner.manager.state_of(TP) is None
    broker.scheduler.tick()
    broker.clock.advance(120_000)
    broker.scheduler.tick()
    assert not list(Path(broker.x).glob("t-0*"))


def test_more_than_a_slice_is_not_copied_while_the_partition_is_held_up(broker: Broker) -> None:
    partition = broker.lead()
    for number in range(40):
        append(partition, b"%d" % number)
    broker.begin(partition)
    assert not future_log.exchange(partition, broker.log_manager, 200)
    assert partition.future_log is not None
    assert 0 < partition.future_log.log_end_offset < 40


def test_a_crash_in_the_middle_goes_on_after_the_restart(broker: Broker, tmp_path: Path) -> None:
    partition = broker.lead()
    for number in range(60):
        append(partition, b"%d" % number)
    broker.begin(partition)
    for _ in range(3):
        future_log.copy_slice(partition, 500)
    assert partition.future_log is not None
    copied = partition.future_log.log_end_offset
    assert 0 < copied < 60
    broker.crash()

    again = Broker(tmp_path)
    assert again.log_manager.cleaner is not None
    assert again.log_manager.cleaner.manager.state_of(TP) == 1
    partition = again.lead(epoch=2)
    found = again.log_manager.get_log(TP, is_future=True)
    assert found is not None
    assert found.log_end_offset == copied
    assert future_log.begin(partition, again.log_manager, found.parent_dir)
    assert partition.future_log is found
    copy_all(partition)
    assert future_log.exchange(partition, again.log_manager, 1 << 16)
    assert contents(found) == [(n, b"%d" % n) for n in range(60)]
    # The new epoch, in which nothing has been written yet, is known to the new log too.
    assert found.end_offset_for_epoch(2) == (2, 60)
    assert found.end_offset_for_epoch(1) == (1, 60)


def test_the_current_log_is_cut_and_goes_on_otherwise(broker: Broker) -> None:
    partition = broker.lead()
    for number in range(40):
        follower_append(partition, 1, b"%d" % number)
    broker.begin(partition)
    copy_all(partition)
    assert partition.future_log is not None
    assert partition.future_log.log_end_offset == 40
    partition.truncate_to(25)
    assert partition.future_log.log_end_offset == 25
    for number in range(30):
        follower_append(partition, 3, b"other %d" % number)
    copy_all(partition)
    assert future_log.exchange(partition, broker.log_manager, 1 << 16)
    assert partition.log is not None
    assert contents(partition.log) == [
        *((n, b"%d" % n) for n in range(25)),
        *((25 + n, b"other %d" % n) for n in range(30)),
    ]
    assert [tuple(e) for e in partition.log.leader_epoch_cache.entries] == [(1, 0), (3, 25)]


def test_a_future_log_that_differs_after_a_restart_is_cut_to_what_is_common(broker: Broker, tmp_path: Path) -> None:
    """The current log has lost its tail with the machine and got another one from its new leader."""
    partition = broker.lead()
    for number in range(40):
        follower_append(partition, 1, b"%d" % number)
    broker.begin(partition)
    copy_all(partition)
    future = partition.future_log
    assert future is not None
    broker.log_manager.truncate_to({TP: 25})
    for number in range(5):
        follower_append(partition, 3, b"other %d" % number)
    assert (partition.log.log_end_offset, future.log_end_offset) == (30, 40)  # type: ignore[union-attr]
    copy_all(partition)
    assert future_log.exchange(partition, broker.log_manager, 1 << 16)
    assert contents(future)[24:] == [(24, b"24"), *((25 + n, b"other %d" % n) for n in range(5))]


def test_records_deleted_under_the_copy(broker: Broker) -> None:
    partition = broker.lead()
    for number in range(40):
        append(partition, b"%d" % number)
    broker.begin(partition)
    future_log.copy_slice(partition, 200)
    assert partition.log is not None
    partition.log.maybe_increment_log_start_offset(35, "test")
    delete_old_segments(partition.log)
    copy_all(partition)
    assert future_log.exchange(partition, broker.log_manager, 1 << 16)
    assert partition.log.log_start_offset == 35
    assert contents(partition.log) == [(n, b"%d" % n) for n in range(35, 40)]


def test_what_was_read_before_a_cut_is_not_appended(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = broker.lead()
    for number in range(20):
        follower_append(partition, 1, b"%d" % number)
    broker.begin(partition)
    read = future_log._read

    def cut_after_read(log: PartitionLog, offset: int, max_bytes: int) -> bytes:
        data = read(log, offset, max_bytes)
        monkeypatch.undo()
        partition.truncate_to(10)
        for number in range(30):
            follower_append(partition, 1, b"other %d" % number)  # the same epoch: only the count of cuts tells
        return data

    monkeypatch.setattr(future_log, "_read", cut_after_read)
    assert future_log.copy_slice(partition, 1 << 16).size == 0
    copy_all(partition)
    assert future_log.exchange(partition, broker.log_manager, 1 << 16)
    assert partition.log is not None
    assert contents(partition.log)[9:11] == [(9, b"9"), (10, b"other 0")]


def test_given_up(broker: Broker) -> None:
    partition = broker.lead()
    append(partition, b"1")
    broker.begin(partition)
    assert future_log.has_other_target(partition, broker.x)
    assert not future_log.has_other_target(partition, broker.y)
    future_log.give_up(partition, broker.log_manager)
    assert future_log.copy_slice(partition, 100).progress is Progress.GONE
    assert not future_log.exchange(partition, broker.log_manager, 100)
    assert len(list(Path(broker.y).glob("t-0.*-delete"))) == 1
    assert broker.log_manager.cleaner is not None
    assert broker.log_manager.cleaner.manager.state_of(TP) is None
    append(partition, b"2")


def test_the_directory_of_the_copy_fails(broker: Broker) -> None:
    partition = broker.lead()
    for number in range(20):
        append(partition, b"%d" % number)
    broker.begin(partition)
    broker.log_manager.handle_log_dir_failure(broker.y)
    with pytest.raises(StorageError):
        future_log.copy_slice(partition, 1000)
    partition.truncate_to(15)  # the current log does not care
    future_log.give_up(partition, broker.log_manager, delete=False)
    append(partition, b"on")
    assert partition.log is not None
    assert contents(partition.log)[-1] == (15, b"on")
    assert broker.log_manager.cleaner is not None
    assert broker.log_manager.cleaner.manager.state_of(TP) is None


def test_the_old_directory_fails_at_the_exchange(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is complete and in place by then: the partition goes on in it."""
    partition = broker.lead()
    for number in range(20):
        append(partition, b"%d" % number)
    broker.begin(partition)
    copy_all(partition)
    old, future = partition.log, partition.future_log
    assert old is not None

    really = PartitionLog.rename_dir

    def fail(log: PartitionLog, name: str) -> None:
        if log is old:
            raise StorageError("gone", broker.x)
        really(log, name)

    monkeypatch.setattr(PartitionLog, "rename_dir", fail)
    with pytest.raises(StorageError):
        future_log.exchange(partition, broker.log_manager, 1000)
    assert partition.log is future
    append(partition, b"on")
    assert contents(partition.log)[-1] == (20, b"on")  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(15))
def test_whatever_happens_both_logs_end_the_same(broker: Broker, seed: int) -> None:
    choose = random.Random(seed)
    partition = broker.lead()
    epoch = 1
    broker_log = broker.log_manager
    moves = 0
    for step in range(150):
        if partition.future_log is None and choose.random() < 0.1:
            target = broker.y if partition.log.parent_dir == broker.x else broker.x  # type: ignore[union-attr]
            broker_log.moves.prefer(TP, target)
            assert future_log.begin(partition, broker_log, target)
        action = choose.randrange(6)
        log = partition.log
        assert log is not None
        if action <= 1:
            follower_append(partition, epoch, *(b"%d" % step for _ in range(choose.randint(1, 8))))
        elif action == 2 and log.log_end_offset > log.log_start_offset:
            cut = choose.randint(log.log_start_offset, log.log_end_offset)
            epoch += 1
            if choose.random() < 0.5:
                partition.truncate_to(cut)
            else:
                broker_log.truncate_to({TP: cut})
            follower_append(partition, epoch, b"epoch %d" % epoch)
        elif action == 3 and choose.random() < 0.3:
            log.update_high_watermark(log.log_end_offset)
            log.maybe_increment_log_start_offset(choose.randint(log.log_start_offset, log.log_end_offset), "test")
            delete_old_segments(log)
        elif partition.future_log is not None:
            progress = future_log.copy_slice(partition, choose.randint(100, 2000)).progress
            if progress is not Progress.CAUGHT_UP:
                continue
            expected = contents(log)
            assert future_log.exchange(partition, broker_log, 1 << 16)
            new = partition.log
            assert new is not log
            assert new is not None
            assert contents(new) == expected
            assert (new.log_start_offset, new.log_end_offset) == (log.log_start_offset, log.log_end_offset)
            assert new.latest_epoch == log.latest_epoch
            moves += 1
    assert moves
