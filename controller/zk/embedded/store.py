"""The store: a transaction log, snapshots, and the lock of their directory."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO

from controller.zk.embedded import snapshots, transaction_codec
from controller.zk.embedded.frames import StoreError, frame, sync_directory, write_durably
from controller.zk.embedded.machine import Limits, Machine
from controller.zk.embedded.sessions import Sessions
from controller.zk.embedded.snapshots import LOG_MAGIC, file_name, files
from controller.zk.embedded.transactions import Transaction

__all__ = ["FileStore", "StoreError"]

# A log of this size is closed, and a process of its own makes a snapshot of what is before it.
LOG_BYTES = 64 << 20


class FileStore:
    """One data directory, held by one server at a time."""

    def __init__(self, directory: Path, log_bytes: int = LOG_BYTES) -> None:
        """Raises StoreError if another server has it, OSError if it can't be written."""
        self.directory = directory.absolute()
        self._log_bytes = log_bytes
        self._pending: list[bytes] = []
        self._last_zxid = 0
        self._written = 0
        self._file: IO[bytes] | None = None
        self._compaction: subprocess.Popen[bytes] | None = None
        self.directory.mkdir(parents=True, exist_ok=True)
        self._lock = (self.directory / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise StoreError(f"another server uses the data directory {self.directory}") from error

    def __enter__(self) -> FileStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
        if self._compaction is not None:
            self._compaction.wait()
        self._lock.close()

    def secret(self) -> bytes:
        """What passwords of sessions are made of; the same after a restart, so that clients come back."""
        path = self.directory / "secret"
        if not path.exists():
            write_durably(path, os.urandom(16))
        return path.read_bytes()

    def recover(self, sessions: Sessions, limits: Limits, monotonic_ms: int) -> Machine:
        """The state as it was, every acknowledged transaction in it. Raises StoreError."""
        logs = files(self.directory, "log")
        machine = snapshots.recover(self.directory, sessions, limits, monotonic_ms, logs)
        self._last_zxid = machine.zxid
        self._open(machine.zxid + 1)
        return machine

    # -- on the loop

    def append(self, transaction: Transaction) -> None:
        self._pending.append(transaction_codec.encode(transaction))
        self._last_zxid = transaction.zxid

    def has_pending(self) -> bool:
        return bool(self._pending)

    def take(self) -> bytes:
        """One frame of all that came since; a new log when the old one is full."""
        data = frame(b"".join(self._pending))
        if self._written > self._log_bytes:
            first = self._last_zxid - len(self._pending) + 1
            self._open(first)
            self._compact()
        self._pending.clear()
        return data

    # -- on the disk's thread

    def write(self, data: bytes) -> None:
        assert self._file is not None
        self._file.write(data)
        os.fdatasync(self._file.fileno()) if hasattr(os, "fdatasync") else os.fsync(self._file.fileno())
        self._written += len(data)

    # -- files

    def _open(self, first_zxid: int) -> None:
        if self._file is not None:
            self._file.close()
        path = self.directory / file_name("log", first_zxid)
        self._file = path.open("ab", buffering=0)
        if self._file.tell() == 0:
            self._file.write(LOG_MAGIC)
            os.fsync(self._file.fileno())
            sync_directory(self.directory)
        self._written = self._file.tell()

    def _compact(self) -> None:
        """One at a time; what a later one finds it does too."""
        if self._compaction is not None and self._compaction.poll() is None:
            return
        root = str(Path(__file__).resolve().parents[3])
        environment = {**os.environ, "PYTHONPATH": root}
        command = [sys.executable, "-m", "controller.zk.embedded.compaction", str(self.directory)]
        self._compaction = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
