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
from tests.fuzz.znodes import fuzz_znode
from tests.support.paths import GOLDEN
from timer.chance import SeededChance
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler

DIRECTORY_EVERY = 500
"""The others are znodes, which take a hundredth of the time and less."""
_DIRECTORIES = ("1_clean", "1_clean", "6_old_formats")
_READ = 1 << 20
_MOST_READS = 500
_REFUSALS = (LogError, OSError)


def fuzz_files(directory: Path, count: int, seed: int) -> list[str]:
    """Reads so many things; returns what went wrong, each with its seed."""
    faults: dict[str, str] = {}
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        for number in range(seed, seed + count):
            rng = random.Random(number)
            try:
                if number % DIRECTORY_EVERY == 0:
                    _log_directory(directory, rng)
                else:
                    fuzz_znode(rng)
            except Exception as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                text = f"file {number}: {error!r}\n{''.join(traceback.format_tb(error.__traceback__)[-4:])}"
                faults.setdefault(f"{last.filename}:{last.lineno}", text)
    finally:
        logging.disable(before)
    return list(faults.values())


def damage(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, the end cut, or something added."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(5):
            case 0 if found:
                found[min(at, len(found) - 1)] = rng.randrange(256)
            case 1:
                del found[at:]
            case 2:
                found[at : at + 8] = rng.choice((b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7, rng.randbytes(8)))
            case 3:
                found += rng.choice((b"\0" * 40, rng.randbytes(20), found[:100]))
            case _:
                del found[at : at + rng.randrange(1, 30)]
    return bytes(found)


def _log_directory(directory: Path, rng: random.Random) -> None:
    if directory.exists():
        shutil.rmtree(directory)
    shutil.copytree(GOLDEN / "log" / rng.choice(_DIRECTORIES) / "data", directory)
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    for path in rng.sample(files, rng.choice((1, 1, 2, 3, len(files)))):
        path.write_bytes(damage(path.read_bytes(), rng))
    if rng.random() < 0.5:
        (directory / CLEAN_SHUTDOWN_FILE).touch()
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
