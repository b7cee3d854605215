"""kill -9 of a process that appends: what it has acknowledged is in the log afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from log.config import LogConfig
from log.management.manager import LogManager
from log.partition_log import PartitionLog
from log.records.record import iter_records
from log.records.validation import check_for_follower
from log.topic_partition import TopicPartition
from tests.support.cluster import ROOT, python_environment
from timer.chance import SystemChance
from timer.clock import SystemClock
from timer.scheduler import BackgroundScheduler

TP = TopicPartition("topic", 0)
ROUNDS = 6
AT_LEAST = 4  # batches of three records that a child acknowledges


def open_manager(directory: str, flush_messages: int) -> tuple[LogManager, BackgroundScheduler]:
    clock = SystemClock()
    scheduler = BackgroundScheduler(2, clock)
    scheduler.startup()
    config = LogConfig(
        segment_bytes=60_000, segment_index_bytes=4096, index_interval_bytes=500, flush_messages=flush_messages
    )
    manager = LogManager(
        [directory],
        default_config=config,
        topic_configs=lambda topic: {},
        broker_id=0,
        cluster_id="c",
        clock=clock,
        scheduler=scheduler,
        chance=SystemChance(),
    )
    manager.startup()
    return manager, scheduler


CHILD = """
import sys
from log.appends import append_as_leader
from log.records.record import Record
from tests.support.batches import build_batch
from timer.clock import SystemClock
from tests.faults.test_log_kill import TP, open_manager

manager, _ = open_manager(sys.argv[1], int(sys.argv[2]))
log = manager.get_or_create_log(TP, is_new=True)
sequence = int(sys.argv[3])
while True:
    batch = build_batch(
        [Record(i, SystemClock().wall_ms(), b"key", b"%d" % (sequence + i) * 20) for i in range(3)],
        producer_id=9, producer_epoch=0, base_sequence=sequence, codec=sequence // 3 % 5,
    )
    info = append_as_leader(log, batch, 0)
    assert not info.duplicate
    sequence += 3
    # Acknowledged: what has been written to the pipe is known outside.
    sys.stdout.write("%d\\n" % info.last_offset)
    sys.stdout.flush()
"""


@pytest.mark.parametrize("flush_messages", [1, 2**63 - 1], ids=["flush on each message", "default flushing"])
def test_nothing_acknowledged_is_lost(tmp_path: Path, flush_messages: int) -> None:
    """With default flushing the operating system keeps what was written, as long as the machine lives."""
    rng = random.Random(flush_messages)
    acknowledged = -1
    for _ in range(ROUNDS):
        acknowledged = max(acknowledged, run_and_kill(tmp_path, flush_messages, acknowledged + 1, rng.random()))
        manager, scheduler = open_manager(str(tmp_path), flush_messages)
        log = manager.get_log(TP)
        assert log is not None
        assert log.log_end_offset > acknowledged
        check(log)
        # What was written but not acknowledged counts, as it does for a client that asks again.
        acknowledged = log.log_end_offset - 1
        crash(manager, scheduler)
    assert acknowledged >= 3 * AT_LEAST * ROUNDS - 1


def run_and_kill(directory: Path, flush_messages: int, sequence: int, moment: float) -> int:
    """The last offset that a child acknowledged before it was killed at some moment."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(directory), str(flush_messages), str(sequence)],
        bufsize=0,  # readline() must not take more than the line from communicate().
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **python_environment()},
        cwd=ROOT,
    )
    try:
        assert child.stdout is not None
        for _ in range(AT_LEAST):
            first = child.stdout.readline()
            assert first, child.stderr.read().decode() if child.stderr else ""
        time.sleep(moment * 0.3)
        child.send_signal(signal.SIGKILL)
        rest, errors = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait(10)
    assert child.returncode == -signal.SIGKILL, errors.decode()
    # What follows the last line end was being written.
    return int((first + rest).rpartition(b"\n")[0].splitlines()[-1])


def check(log: PartitionLog) -> None:
    """Every record is there once, in order, and its producer's state stands at the end."""
    offset = expected = 0
    while offset < log.log_end_offset:
        info = log.read(offset, 1 << 20)
        batches = check_for_follower(info.records.read()).batches
        info.records.release()
        assert batches
        for batch in batches:
            for record in iter_records(batch):
                assert (record.offset, record.value) == (expected, b"%d" % expected * 20)
                expected += 1
        offset = batches[-1].last_offset + 1
    assert expected == log.log_end_offset
    assert log.active_producers()[0].last_sequence == expected - 1


def crash(manager: LogManager, scheduler: BackgroundScheduler) -> None:
    """This process gives the directory up without a clean stop."""
    scheduler.shutdown()
    for log in manager.all_logs():
        log.close_handles()
    for log_dir in manager._live.values():
        log_dir.unlock(remove=False)
