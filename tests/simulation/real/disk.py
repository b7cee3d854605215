"""What a disk may do to files: they are real ones, and this keeps book of how much of each has been synced."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any


class Disk:
    """Takes the place of `os.fsync` and the calls that change a file's size, while it is installed.

    Nothing is ever really synced. `lose` does what the loss of power does: of each log segment and checkpoint that was
    not written in place of another, the end that was never synced is kept, cut or torn.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._synced: dict[int, int] = {}
        """By inode: bytes from the start that survive."""
        self._real_truncate: Callable[[Any, int], None] = os.truncate
        self._real_pwrite = os.pwrite
        self.failing: dict[str, int] = {}
        """Directories of brokers that can write no more, and why: ENOSPC or EIO."""
        self.lost_bytes = 0

    def install(self, patch: Callable[[Any, str, Any], None]) -> None:
        real_ftruncate = os.ftruncate

        def fsync(fd: int) -> None:
            if self._failure(fd) == errno.EIO:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            found = os.fstat(fd)
            self._synced[found.st_ino] = found.st_size

        def ftruncate(fd: int, size: int) -> None:
            self._cut(os.fstat(fd).st_ino, size)
            real_ftruncate(fd, size)

        def truncate(path: Any, size: int) -> None:
            self._cut(os.stat(path).st_ino, size)
            self._real_truncate(path, size)

        def pwrite(fd: int, data: Any, position: int) -> int:
            failure = self._failure(fd)
            if failure is not None:
                view = memoryview(data).cast("B")
                self._real_pwrite(fd, view[: self._rng.randint(0, len(view))], position)
                raise OSError(failure, os.strerror(failure))
            return self._real_pwrite(fd, data, position)

        patch(os, "fsync", fsync)
        patch(os, "ftruncate", ftruncate)
        patch(os, "truncate", truncate)
        patch(os, "pwrite", pwrite)

    def _failure(self, fd: int) -> int | None:
        if not self.failing:
            return None
        path = os.readlink(f"/proc/self/fd/{fd}")
        return next((code for directory, code in self.failing.items() if path.startswith(directory)), None)

    def _cut(self, inode: int, size: int) -> None:
        if inode in self._synced:
            self._synced[inode] = min(self._synced[inode], size)

    def lose(self, directory: str) -> None:
        """The machine of this directory loses its power."""
        rng = self._rng
        for path in sorted(Path(directory).rglob("*")):
            if path.suffix not in (".log", ".txnindex") or not path.is_file():
                continue
            found = path.stat()
            safe = min(self._synced.get(found.st_ino, 0), found.st_size)
            if safe == found.st_size:
                continue
            kept = rng.choice((safe, found.st_size, rng.randint(safe, found.st_size)))
            self.lost_bytes += found.st_size - kept
            self._real_truncate(path, kept)
            if kept > safe and rng.random() < 0.3:
                with path.open("r+b") as file:
                    file.seek(rng.randint(safe, kept - 1))
                    file.write(b"\0" * (kept - file.tell()))
