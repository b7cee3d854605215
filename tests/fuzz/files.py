"""What a broker reads from its disk and from ZooKeeper, damaged: it is refused by a declared error, never by another.

A log directory is a golden one of Apache Kafka with bytes changed, cut, or prolonged in some of its files. It is loaded
as at a start, with or without a clean stop before, and what could be loaded is read to its end. The tools that look at
files must come to an end on them, too.
"""

from __future__ import annotations

import logging
import random
import shutil
import traceback
from pathlib import Path

from log.config import LogConfig
from log.errors import LogError
from log.files.names import CLEAN_SHUTDOWN_FILE
from log.management.manager import LogManager
from log.offset_lookup import fetch_offset_by_timestamp
from log.partition_log import PartitionLog
from log.records.old_formats import iter_entries
from log.records.record import iter_records
from log.tools.dump import DumpOptions, dump_file
from log.tools.verify import Verifier
from tests.fuzz.file_damage import damage_as
from tests.fuzz.single_files import fuzz_file
from tests.fuzz.znodes import fuzz_znode
from tests.support.paths import GOLDEN
from timer.chance import SeededChance
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler

DIRECTORY_EVERY = 100
"""The others are single files and znodes by turns, which take a hundredth of the time and less."""
_DIRECTORIES = ("1_clean", "1_clean", "6_old_formats")
_READ = 1 << 20
_MOST_READS = 500
_REFUSALS = (LogError, OSError)


def fuzz_files(directory: Path, count: int, seed: int) -> list[str]:
    """Reads so many things; returns what went wrong, each with its seed."""
    faults: dict[str, str] = {}
    single = directory.with_name(f"{directory.name}-single")
    single.mkdir(parents=True, exist_ok=True)
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        for number in range(seed, seed + count):
            rng = random.Random(number)
            try:
                if number % DIRECTORY_EVERY == 0:
                    _log_directory(directory, rng)
                elif number % 2:
                    fuzz_file(single, rng)
                else:
                    fuzz_znode(rng)
            except Exception as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                text = f"file {number}: {error!r}\n{''.join(traceback.format_tb(error.__traceback__)[-4:])}"
                faults.setdefault(f"{last.filename}:{last.lineno}", text)
    finally:
        logging.disable(before)
    return list(faults.values())


def _log_directory(directory: Path, rng: random.Random) -> None:
    if directory.exists():
        shutil.rmtree(directory)
    shutil.copytree(GOLDEN / "log" / rng.choice(_DIRECTORIES) / "data", directory)
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    for path in rng.sample(files, rng.choice((1, 1, 2, 3, len(files)))):
        path.write_bytes(damage_as(path.name, path.read_bytes(), rng))
    if rng.random() < 0.5:
        (directory / CLEAN_SHUTDOWN_FILE).touch()
    if rng.random() < 0.1:
        _leave_behind(rng.choice(files).parent, rng)
    _look_at(directory, files)
    clock = ManualClock(start_wall_ms=1_800_000_000_000)
    manager = LogManager(
        [str(directory)],
        default_config=LogConfig(segment_index_bytes=8192),
        topic_configs=lambda topic: {},
        broker_id=0,
        cluster_id=None,
        clock=clock,
        scheduler=ManualScheduler(clock),
        chance=SeededChance(rng.randrange(1000)),
    )
    try:
        manager.startup()
        for log in manager.all_logs():
            _read(log)
    except _REFUSALS:
        pass
    finally:
        manager.shutdown()


def _leave_behind(directory: Path, rng: random.Random) -> None:
    """A file or a directory that a crash, another program or a restored copy left."""
    name = rng.choice(("x", "\xb2", "9" * 20, "0" * 20, "0" * 19 + "7", "1_0", "-1", "\u0661" * 20))
    path = directory / (
        name + rng.choice((".log", ".index", ".snapshot", ".swap", ".log.swap", ".cleaned", "", ".deleted"))
    )
    if path.exists():
        return
    if rng.random() < 0.2:
        path.mkdir()
    else:
        path.write_bytes(rng.choice((b"", b"\0" * 70, rng.randbytes(70))))


def _look_at(directory: Path, files: list[Path]) -> None:
    for _ in Verifier().verify(directory):
        pass
    for path in files:
        try:
            for _ in dump_file(path, DumpOptions(deep=True)):
                pass
        except (*_REFUSALS, ValueError):
            pass  # the command prints it and goes on to the next file


def _read(log: PartitionLog) -> None:
    offset = log.log_start_offset
    for _ in range(_MOST_READS):
        if offset >= log.log_end_offset:
            break
        try:
            found = log.read(offset, _READ, min_one_message=True)
            try:
                data = found.records.read()
            finally:
                found.records.release()
            entries = list(iter_entries(data))
            for entry in entries:
                try:
                    entry.ensure_valid()
                    list(iter_records(entry))
                except LogError:
                    continue
            following = entries[-1].next_offset if entries else offset + 1
        except LogError:
            following = offset + 1
        # No checksum covers a batch's offset, and a log that was stopped cleanly is taken as it is.
        offset = max(following, offset + 1)
    else:
        raise AssertionError(f"{log}: no end after {_MOST_READS} reads")
    for timestamp in (-1, 0, 1_700_000_000_000, 2**63 - 1):
        try:
            fetch_offset_by_timestamp(log, timestamp)
        except LogError:
            continue
