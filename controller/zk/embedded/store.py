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
from timer.chance import Chance

__all__ = ["FileStore", "StoreError"]

# A log of this size is closed, and a process of its own makes a snapshot of what is before it.
LOG_BYTES = 64 << 20
# Every start begins a log; at a start with more of them than this a snapshot is made too.
_MAX_LOGS = 20
_RECOVERIES = 5


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

    def secret(self, chance: Chance) -> bytes:
        """What passwords of sessions are made of; the same after a restart, so that clients come back."""
        path = self.directory / "secret"
        if not path.exists():
            write_durably(path, chance.randbytes(16))
        return path.read_bytes()

    def recover(self, sessions: Sessions, limits: Limits, monotonic_ms: int) -> Machine:
        """The state as it was, every acknowledged transaction in it. Raises StoreError."""
        for _ in range(_RECOVERIES):
            logs = files(self.directory, "log")
            try:
                size = sum(path.stat().st_size for _, path in logs)
                machine = snapshots.recover(self.directory, sessions, limits, monotonic_ms, logs)
                break
            except FileNotFoundError:
                # The compaction of a server that was killed has just put these files into a snapshot.
                sessions.live.clear()
        else:
            raise StoreError(f"files come and go in {self.directory}")
        self._last_zxid = machine.zxid
        self._open(machine.zxid + 1)
        if size > self._log_bytes or len(logs) > _MAX_LOGS:
            self._compact()
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
        _write_all(self._file, data)
        os.fdatasync(self._file.fileno()) if hasattr(os, "fdatasync") else os.fsync(self._file.fileno())
        self._written += len(data)

    # -- files

    def _open(self, first_zxid: int) -> None:
        if self._file is not None:
            self._file.close()
        path = self.directory / file_name("log", first_zxid)
        self._file = path.open("ab", buffering=0)
        if self._file.tell() == 0:
            _write_all(self._file, LOG_MAGIC)
            os.fsync(self._file.fileno())
            sync_directory(self.directory)
        self._written = self._file.tell()

    def _compact(self) -> None:
        """One at a time; what a later one finds it does too."""
        if self._compaction is not None:
            code = self._compaction.poll()
            if code is None:
                return
            if code:
                text = f"zookeeper: the last snapshot failed with exit code {code}; its logs are kept"
                print(text, file=sys.stderr, flush=True)
        root = str(Path(__file__).resolve().parents[3])
        environment = {**os.environ, "PYTHONPATH": root}
        # -P: a user's own `controller` in the working directory is not ours.
        command = [sys.executable, "-P", "-m", "controller.zk.embedded.compaction", str(self.directory)]
        self._compaction = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)


def _write_all(file: IO[bytes], data: bytes) -> None:
    """An unbuffered write may take a part only, on a disk that is getting full; what follows then raises OSError."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
