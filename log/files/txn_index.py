"""The `.txnindex` of a segment: the transactions that were aborted with a marker in it.

An entry has 34 bytes: version (2), producer id (8), first offset (8), last offset, which is the marker's (8), and the
last stable offset when the marker was written (8). Last offsets rise strictly. The file appears with the first entry.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from threading import Lock
from typing import NamedTuple, Protocol

from log.errors import CorruptIndexError, InconsistentMetadataError
from log.files.handles import NamedFile

ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE = ENTRY.size
VERSION = 0


class AbortedTxn(NamedTuple):
    """An aborted transaction; `last_offset` is the offset of its ABORT marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class CompletedTransaction(Protocol):
    """What `log.producer_state` tells about a transaction that a marker has ended."""

    @property
    def producer_id(self) -> int: ...
    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...


class TransactionIndex(NamedFile):
    """The index of one segment, opened on first use. Appends and truncation happen under the log's lock; reads from any
    thread. Raises OSError from file operations."""

    __slots__ = ("_fd", "_last_offset", "_loaded", "_lock", "base_offset")

    def __init__(self, path: str | os.PathLike[str], base_offset: int) -> None:
        self.path = os.fspath(path)
        self.base_offset = base_offset
        self._lock = Lock()
        self._fd = -1
        self._last_offset: int | None = None
        self._loaded = False

    def append(self, txn: AbortedTxn) -> None:
        """Adds an entry. Raises ValueError when its last offset does not increase."""
        with self._lock:
            last = self._read_last()
            if last is not None and txn.last_offset <= last:
                raise ValueError(f"{self.path}: last offset {txn.last_offset} does not follow {last}")
            if self._fd < 0:
                self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            # A partial entry, left by a crash, is overwritten.
            end = os.fstat(self._fd).st_size // ENTRY_SIZE * ENTRY_SIZE
            data = ENTRY.pack(VERSION, *txn)
            written = os.pwrite(self._fd, data, end)
            if written < ENTRY_SIZE:
                os.ftruncate(self._fd, end)
                raise OSError(f"{self.path}: only {written} of {ENTRY_SIZE} bytes could be written")
            self._last_offset = txn.last_offset

    def append_completed(self, txn: CompletedTransaction, last_stable_offset: int) -> None:
        """Adds the entry of an aborted transaction; see `append`."""
        self.append(AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, last_stable_offset))

    def entries(self) -> list[AbortedTxn]:
        """All entries; a trailing partial one is ignored. Raises CorruptIndexError on a version of the future."""
        with self._lock:
            return [txn for _, txn in self._iterate()]

    def __iter__(self) -> Iterator[AbortedTxn]:
        return iter(self.entries())

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTxn], bool]:
        """The transactions that overlap [fetch_offset, upper_bound), and whether later segments cannot have more."""
        found = []
        for txn in self.entries():
            if txn.last_offset >= fetch_offset and txn.first_offset < upper_bound:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Cuts at the first entry whose last offset is >= `offset`."""
        with self._lock:
            last: int | None = None
            for position, txn in self._iterate():
                if txn.last_offset >= offset:
                    os.ftruncate(self._open(), position)
                    self._last_offset = last
                    self._loaded = True
                    return
                last = txn.last_offset

    def reset(self) -> None:
        """Drops all entries; the file stays if it is there."""
        with self._lock:
            if self._exists():
                os.ftruncate(self._open(), 0)
            self._last_offset = None
            self._loaded = True

    def check(self) -> None:
        """Raises CorruptIndexError when an entry lies before the segment (the segment is then recovered) and
        InconsistentMetadataError when an entry has a version of the future (loading the log then fails)."""
        with self._lock:
            try:
                for _, txn in self._iterate():
                    if txn.last_offset < self.base_offset:
                        raise CorruptIndexError(
                            f"{self.path}: last offset {txn.last_offset} is below the base offset {self.base_offset}"
                        )
            except _FutureVersion as error:
                raise InconsistentMetadataError(str(error)) from None

    def flush(self) -> None:
        """Makes the entries durable."""
        with self._lock:
            if self._fd >= 0:
                os.fsync(self._fd)

    def close(self) -> None:
        """Closes the file; a later call opens it again."""
        with self._lock:
            self._close()

    def close_handles(self) -> None:
        """As `close`: there is nothing to write."""
        self.close()

    def rename(self, path: str | os.PathLike[str]) -> None:
        """Renames the file, if there is one; an open descriptor stays valid."""
        path = os.fspath(path)
        with self._lock:
            with contextlib.suppress(FileNotFoundError):
                os.replace(self.path, path)
            self.path = path

    def moved(self, path: str | os.PathLike[str]) -> None:
        """The directory has been renamed: the file is now at `path`."""
        with self._lock:
            self.path = os.fspath(path)

    def delete(self) -> None:
        """Removes the file, if there is one."""
        with self._lock:
            self._close()
            self._last_offset = None
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    def _iterate(self) -> Iterator[tuple[int, AbortedTxn]]:
        if not self._exists():
            return
        fd = self._open()
        data = os.pread(fd, os.fstat(fd).st_size, 0)
        whole = len(data) // ENTRY_SIZE * ENTRY_SIZE
        for position in range(0, whole, ENTRY_SIZE):
            # Kafka's reader looks at the first byte of the version only.
            if data[position] > VERSION:
                raise _FutureVersion(f"{self.path}: entry at {position} has version {data[position]}")
            yield position, AbortedTxn(*ENTRY.unpack_from(data, position)[1:])

    def _read_last(self) -> int | None:
        if not self._loaded:
            for _, txn in self._iterate():
                self._last_offset = txn.last_offset
            self._loaded = True
        return self._last_offset

    def _exists(self) -> bool:
        return self._fd >= 0 or os.path.exists(self.path)

    def _open(self) -> int:
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDWR)
        return self._fd

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _FutureVersion(CorruptIndexError):
    pass
