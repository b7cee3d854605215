"""Partitions of `__consumer_offsets` that Kafka wrote."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from broker.coordinator.coordinator_log import Batch
from log.records.batch_reader import read_batches
from tests.support.paths import shared_golden

FOLDERS = ["1_clean", "2_clean_after_compaction", "4_unclean_torn_tail", "5_clean_after_recovery"]


def golden(folder: str) -> Iterator[tuple[Path, Path]]:
    root = shared_golden() / "log" / folder
    for directory in sorted((root / "data").glob("__consumer_offsets-*")):
        for log in sorted(directory.glob("*.log")):
            yield log, root / "dump" / f"{directory.name}.txt"


def batches_of(log: Path, copy: Path) -> list[Batch]:
    target = copy / log.name
    shutil.copy(log, target)
    with target.open("rb") as file:
        return [batch for _, batch in read_batches(file.fileno(), 0, os.fstat(file.fileno()).st_size)]
