"""Whole reads and writes on descriptors, changes of file names, and the limit on open files."""

from __future__ import annotations

import errno
import logging
import os
import resource
import sys
from threading import Lock, RLock

logger = logging.getLogger(__name__)


def pread_fully(fd: int, size: int, position: int) -> bytes:
    """Exactly `size` bytes at `position`. Raises `EOFError` if the file ends early."""
    data = os.pread(fd, size, position)
    if len(data) == size:
        return data
    parts = [data]
    got = len(data)
    while got < size and data:
        data = os.pread(fd, size - got, position + got)
        parts.append(data)
        got += len(data)
    if got < size:
        raise EOFError(f"file ended after {got} of {size} bytes at position {position}")
    return b"".join(parts)


def pwrite_fully(fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
    """Write all of `data` at `position`. Raises `OSError`; then any prefix of it may have been written."""
    size = len(data)
    done = os.pwrite(fd, data, position)
    if done == size:
        return
    view = memoryview(data)
    while done < size:
        n = os.pwrite(fd, view[done:], position + done)
        if n == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done += n


def write_fully(fd: int, data: bytes | memoryview) -> None:
    """Write all of `data` where the descriptor stands. Raises `OSError`, as `pwrite_fully`."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def file_names(directory: str | os.PathLike[str]) -> list[str]:
    """Names of the files in a directory, without those of directories, whatever these are called. Raises OSError."""
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries if entry.is_file()]


class NamedFile:
    """A file whose path is kept as directory and name, which are interned.

    A log has half a dozen files of one directory, and most logs have files of the same names: whole paths would be some
    six hundred bytes of a partition that nobody uses.
    """

    __slots__ = ("_directory", "_name")

    @property
    def path(self) -> str:
        return f"{self._directory}/{self._name}" if self._directory else self._name

    @path.setter
    def path(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        # Without a directory, or in the root, the path is all name.
        self._name = sys.intern(name if directory else path)
        self._directory = sys.intern(directory)


class MovableFile(NamedFile):
    """A file that is renamed, or whose directory is, while other threads may open it."""

    __slots__ = ("_lock",)
    _lock: Lock | RLock

    def rename(self, path: str) -> None:
        with self._lock:
            rename_if_exists(self.path, path)
            self.path = path

    def moved(self, path: str) -> None:
        """The directory has been renamed: the file is now at `path`."""
        with self._lock:
            self.path = path


def unlink_if_exists(path: str) -> bool:
    """Remove the file `path`; False if there is none."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def rename_if_exists(source: str, target: str) -> bool:
    """Rename `source` over `target`; False if there is no `source`."""
    try:
        os.rename(source, target)
    except FileNotFoundError:
        return False
    return True


def raise_descriptor_limit(at_most: int = 1 << 20) -> int:
    """Let this process open as many files as the system allows it to; returns the limit that now holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = at_most if hard == resource.RLIM_INFINITY else min(hard, at_most)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            logger.warning("cannot raise the limit on open files from %d to %d: %s", soft, wanted, error)
            return soft
        return wanted
    return soft
