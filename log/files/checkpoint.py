"""Checkpoint files: a version line, a count line and one line an entry, replaced atomically."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from log.errors import CorruptCheckpointError, StorageError
from log.files.handles import NamedFile, write_fully
from log.topic_partition import TopicPartition

T = TypeVar("T")
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")

CHECKPOINT_VERSION = 0

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"


def fsync_directory(path: str | os.PathLike[str]) -> None:
    """Makes the names in a directory durable. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(
    path: str | os.PathLike[str], data: bytes, *, sync: bool = True, sync_name: bool | None = None
) -> None:
    """Writes `data` to `<path>.tmp`, syncs it, renames it over `path` and syncs the directory.

    A reader sees the old content or the new one, never a mixture. Raises OSError; the old file is then still there.
    Without `sync` the content outlives the process, but the machine may come up with the old file, the new one, or an
    empty one, as XFS does; without `sync_name` with the old or the new.
    """
    path = os.fspath(path)
    temporary = path + ".tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_fully(fd, data)
        if sync:
            os.fsync(fd)
    except BaseException:
        # A half-written temporary is of no use, and on a full disk its space is.
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    os.replace(temporary, path)
    if sync if sync_name is None else sync_name:
        fsync_directory(os.path.dirname(path) or ".")


class CheckpointFile(NamedFile, Generic[T]):
    """One checkpoint file whose lines are written by `format_entry` and read by `parse_entry`.

    `parse_entry` gets the whitespace-separated fields of a line and raises ValueError when they are no entry.
    Reads and writes of one object exclude each other. I/O errors are raised as StorageError with `log_directory`.
    """

    __slots__ = ("_format", "_lock", "_log_directory", "_parse")

    def __init__(
        self,
        path: str | os.PathLike[str],
        format_entry: Callable[[T], str],
        parse_entry: Callable[[list[str]], T],
        log_directory: str | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self._format = format_entry
        self._parse = parse_entry
        self._log_directory = sys.intern(log_directory or os.path.dirname(self.path))
        self._lock = threading.Lock()

    def create_if_absent(self) -> None:
        """Makes an empty file, as Kafka does when it opens a checkpoint for the first time."""
        try:
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644))
        except OSError as e:
            raise StorageError(f"cannot create {self.path}: {e}", self._log_directory) from e

    def write(self, entries: Iterable[T], *, sync: bool = True, sync_name: bool | None = None) -> None:
        """Replaces the content, durably but for what `replace_file` is told to leave out. Raises StorageError."""
        lines = [self._format(entry) for entry in entries]
        text = "\n".join([str(CHECKPOINT_VERSION), str(len(lines)), *lines]) + "\n"
        with self._lock:
            try:
                replace_file(self.path, text.encode(), sync=sync, sync_name=sync_name)
            except OSError as e:
                raise StorageError(f"cannot write checkpoint {self.path}: {e}", self._log_directory) from e

    def read(self) -> list[T]:
        """All entries; an absent or empty file, or one with a version only, has none.

        Raises CorruptCheckpointError, which names file and line, and StorageError when the file cannot be read.
        """
        with self._lock:
            try:
                data = Path(self.path).read_bytes()
            except FileNotFoundError:
                return []
            except OSError as e:
                raise StorageError(f"cannot read checkpoint {self.path}: {e}", self._log_directory) from e
        try:
            lines = data.decode().splitlines()
        except UnicodeDecodeError as e:
            raise self._corrupt(1, f"not UTF-8 text ({e.reason})") from None
        if not lines:
            return []
        version = self._number(lines[0], 1, "a version")
        if version != CHECKPOINT_VERSION:
            raise self._corrupt(1, f"version {version} is not supported, only {CHECKPOINT_VERSION}")
        if len(lines) == 1:
            return []
        count = self._number(lines[1], 2, "an entry count")
        entries = []
        for number, line in enumerate(lines[2:], start=3):
            try:
                entries.append(self._parse(line.split()))
            except ValueError:
                raise self._corrupt(number, f"no entry: {line!r}") from None
        if len(entries) != count:
            raise self._corrupt(2, f"{count} entries announced but {len(entries)} found")
        return entries

    def _number(self, text: str, line: int, what: str) -> int:
        try:
            return parse_integer(text.strip(), 32)
        except ValueError:
            raise self._corrupt(line, f"expected {what}, found {text!r}") from None

    def _corrupt(self, line: int, message: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(f"checkpoint {self.path}, line {line}: {message}", self._log_directory)


class OffsetCheckpoint:
    """An offset per partition: recovery points, log start offsets, high watermarks or the cleaner's positions."""

    def __init__(self, path: str | os.PathLike[str], log_directory: str | None = None) -> None:
        self._file: CheckpointFile[tuple[TopicPartition, int]] = CheckpointFile(
            path, _format_offset, _parse_offset, log_directory
        )
        self.path = self._file.path

    def create_if_absent(self) -> None:
        """See `CheckpointFile.create_if_absent`."""
        self._file.create_if_absent()

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replaces all entries, durably. Raises StorageError."""
        self._file.write(offsets.items())

    def read(self) -> dict[TopicPartition, int]:
        """All entries. Raises CorruptCheckpointError or StorageError."""
        return dict(self._file.read())


def _format_offset(entry: tuple[TopicPartition, int]) -> str:
    (topic, partition), offset = entry
    return f"{topic} {partition} {offset}"


def _parse_offset(fields: list[str]) -> tuple[TopicPartition, int]:
    topic, partition, offset = fields
    return TopicPartition(topic, parse_integer(partition, 32)), parse_integer(offset, 64)


def parse_integer(text: str, bits: int) -> int:
    """A number of so many bits, as Java reads it. Raises ValueError for any other text."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no number")
    number = int(text)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"{text} does not fit {bits} bits")
    return number
