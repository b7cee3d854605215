"""Names of partition directories, and of the files in them and beside them."""

from __future__ import annotations

import os
import re
from enum import StrEnum

from log.errors import LogError
from log.topic_partition import TopicPartition
from timer.chance import Chance, random_uuid

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"
MAX_NAME = 255
_DELETING = re.compile(r"^(\S+)-(\S+)\.(\S+)-delete$")
_FUTURE = re.compile(r"^(\S+)-(\S+)\.(\S+)-future$")
_STRAY = re.compile(r"^(\S+)-(\S+)\.(\S+)-stray$")


class DirectoryKind(StrEnum):
    """What a partition directory holds, by the end of its name."""

    CURRENT = ""
    DELETE = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


def offset_file(directory: str, base_offset: int, suffix: str) -> str:
    """Path of the file of `base_offset` with `suffix`: 20 decimal digits, then the suffix."""
    return f"{directory}/{base_offset:020d}{suffix}"


def offset_of(name: str) -> int:
    """The offset in a file's name. Raises `ValueError` if it does not start with a number and a dot."""
    return int(name[: name.index(".")])


def current_dir_name(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"


def renamed_dir_name(tp: TopicPartition, kind: DirectoryKind, chance: Chance) -> str:
    """A new unique name for the directory of `tp` as a future, deleted or stray one.

    Deleted and stray names are cut in the topic part so that they stay within 255 characters.
    """
    suffix = _suffix(tp, kind, random_uuid(chance).hex)
    topic = tp.topic
    if kind in (DirectoryKind.DELETE, DirectoryKind.STRAY):
        topic = topic[: max(0, MAX_NAME - len(suffix))]
    return topic + suffix


def has_room_for_future(tp: TopicPartition) -> bool:
    """Whether the directory of a future log of `tp` has a name that is not too long."""
    return len(tp.topic) + len(_suffix(tp, DirectoryKind.FUTURE, "0" * 32)) <= MAX_NAME


def _suffix(tp: TopicPartition, kind: DirectoryKind, unique: str) -> str:
    return f"-{tp.partition}.{unique}{kind.value}"


def parse_dir_name(name: str) -> tuple[TopicPartition, DirectoryKind]:
    """The partition and kind that a directory name stands for. Raises `LogError` for any other name."""
    kind = DirectoryKind.CURRENT
    stem = name
    for pattern, candidate in (
        (_DELETING, DirectoryKind.DELETE),
        (_FUTURE, DirectoryKind.FUTURE),
        (_STRAY, DirectoryKind.STRAY),
    ):
        if pattern.match(name):
            kind, stem = candidate, name[: name.rindex(".")]
            break
    topic, dash, number = stem.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdigit()):
        raise LogError(
            f"found directory {os.fspath(name)!r}, which is not in the form topic-partition or "
            "topic-partition.uniqueId-delete (-future, -stray): a log directory may hold nothing else"
        )
    return TopicPartition(topic, int(number)), kind
