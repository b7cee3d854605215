"""Names of partition directories, and of the files in them and beside them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
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
_OFFSET_DIGITS, _MAX_OFFSET = 20, 2**63 - 1
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


def offset_in(stem: str) -> int | None:
    """The offset that these 20 digits are, None if they are no offset."""
    if len(stem) != _OFFSET_DIGITS or not (stem.isascii() and stem.isdigit()):
        return None
    offset = int(stem)
    return offset if offset <= _MAX_OFFSET else None


def is_of_segment(name: str) -> bool:
    """Whether a file's name begins with an offset, as those of segments do."""
    stem, dot, _ = name.partition(".")
    return bool(dot) and offset_in(stem) is not None


def segment_bases(names: Iterable[str]) -> list[int]:
    """The base offsets of the segments whose `.log` files are among these names, ascending."""
    stems = (name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX))
    return sorted(base for stem in stems if (base := offset_in(stem)) is not None)


def offset_of(name: str) -> int:
    """The offset in a file's name. Raises `LogError` if it does not begin with one and a dot."""
    stem, dot, _ = name.partition(".")
    offset = offset_in(stem)
    if offset is None or not dot:
        raise LogError(f"found file {name!r}, whose name does not begin with an offset of 20 digits")
    return offset


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
    # Interned: a start reads the name of a topic once for each of its partitions.
    return TopicPartition(sys.intern(topic), int(number)), kind
