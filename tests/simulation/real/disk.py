"""What a disk may do to files: they are real ones, and this keeps book of what of them has been synced."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.simulation.real.files import Directory, File, Node

_REAL_OPEN, _REAL_WRITE, _REAL_PWRITE = os.open, os.write, os.pwrite
_REAL_TRUNCATE, _REAL_FTRUNCATE = os.truncate, os.ftruncate
_REAL_RENAME, _REAL_UNLINK, _REAL_RMDIR, _REAL_MKDIR = os.rename, os.unlink, os.rmdir, os.mkdir

_CALLS = (
    "fsync", "fdatasync", "ftruncate", "truncate", "pwrite", "write",
    "open", "rename", "replace", "unlink", "remove", "rmdir", "mkdir",
)  # fmt: skip


class Disk:
    """Takes the place of the calls that change files and names below `root`, and of `os.fsync`, while it is installed.

    Nothing is ever really synced. `lose` does what the loss of power does: whatever was not synced is kept, lost or
    torn, names as well as contents (`files.py`). So a file that took the place of another by a rename may be the old
    one, the new one, or one without content.
    """

    def __init__(self, rng: Random, root: Path) -> None:
        self._rng = rng
        self._root = os.path.abspath(root)
        self._tree = Directory()
        self._nodes: dict[tuple[int, int], Node] = {}
        """By device and inode."""
        self._restoring = False
        self.failing: dict[str, int] = {}
        """Directories that can be written no more, and why: ENOSPC or EIO."""
        self.lost_bytes = 0

    def install(self, patch: Callable[[Any, str, Any], None]) -> None:
        self._register(self._root, self._tree)
        for name in _CALLS:
            patch(os, name, getattr(self, name))

    # -- contents ------------------------------------------------------------------------------------------------------

    def fsync(self, fd: int) -> None:
        if self._failure(fd) == errno.EIO:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        node = self._of(fd)
        if node is not None:
            node.sync()

    fdatasync = fsync

    def ftruncate(self, fd: int, size: int) -> None:
        _REAL_FTRUNCATE(fd, size)
        self._changed(fd, size)

    def truncate(self, path: Any, size: int) -> None:
        _REAL_TRUNCATE(path, size)
        self._changed(path, size)

    def pwrite(self, fd: int, data: Any, position: int) -> int:
        view = memoryview(data).cast("B")
        failure = self._failure(fd)
        if failure is not None:
            view = view[: self._rng.randint(0, len(view))]
        done = _REAL_PWRITE(fd, view, position)
        self._changed(fd, (position, bytes(view[:done])))
        if failure is not None:
            raise OSError(failure, os.strerror(failure))
        return done

    def write(self, fd: int, data: Any) -> int:
        if self._of(fd) is None:
            return _REAL_WRITE(fd, data)
        position = os.lseek(fd, 0, os.SEEK_CUR)
        done = self.pwrite(fd, data, position)
        os.lseek(fd, position + done, os.SEEK_SET)
        return done

    def _changed(self, file: Any, change: int | tuple[int, bytes]) -> None:
        node = self._of(file)
        if isinstance(node, File):
            node.change(change)

    def _of(self, file: Any) -> Node | None:
        if self._restoring:
            return None
        found = os.stat(file)
        return self._nodes.get((found.st_dev, found.st_ino))

    def _failure(self, fd: int) -> int | None:
        if not self.failing:
            return None
        path = os.readlink(f"/proc/self/fd/{fd}") + "/"
        return next((code for directory, code in self.failing.items() if path.startswith(directory + "/")), None)

    # -- names ---------------------------------------------------------------------------------------------------------

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        parent, name = self._parent(path, dir_fd)
        node = None if parent is None else parent.names.get(name)
        fd = _REAL_OPEN(path, flags, mode, dir_fd=dir_fd)
        if parent is not None and node is None and flags & os.O_CREAT:
            node = File()
            self._register(fd, node)
            parent.change({name: node})
        elif isinstance(node, File) and flags & os.O_TRUNC:
            node.change(0)
        return fd

    def rename(self, source: Any, target: Any) -> None:
        parent, name = self._parent(source)
        other, new = self._parent(target)
        _REAL_RENAME(source, target)
        if parent is not None:
            assert other is parent, "from one directory into another"
            parent.change({name: None, new: parent.names[name]})

    def replace(self, source: Any, target: Any) -> None:
        self.rename(source, target)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        parent, name = self._parent(path, dir_fd)
        _REAL_UNLINK(path, dir_fd=dir_fd)
        if parent is not None:
            parent.change({name: None})

    def remove(self, path: Any, *, dir_fd: int | None = None) -> None:
        self.unlink(path, dir_fd=dir_fd)

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        parent, name = self._parent(path, dir_fd)
        _REAL_RMDIR(path, dir_fd=dir_fd)
        if parent is not None:
            parent.change({name: None})

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        parent, name = self._parent(path, dir_fd)
        _REAL_MKDIR(path, mode, dir_fd=dir_fd)
        if parent is not None:
            node = Directory()
            self._register(path, node)
            parent.change({name: node})

    def _parent(self, path: Any, dir_fd: int | None = None) -> tuple[Directory | None, str]:
        """The directory that has this name, None if it is not below the root."""
        if self._restoring:
            return None, ""
        path = os.fspath(path)
        if dir_fd is not None:
            node = self._of(dir_fd)
            return (node if isinstance(node, Directory) else None), path
        above, name = os.path.split(os.path.abspath(path))
        node = self._find(above)
        return (node if isinstance(node, Directory) else None), name

    def _find(self, path: str) -> Node | None:
        if path != self._root and not path.startswith(self._root + "/"):
            return None
        node: Node = self._tree
        for name in Path(path).relative_to(self._root).parts:
            if not isinstance(node, Directory) or name not in node.names:
                return None
            node = node.names[name]
        return node

    def _register(self, file: Any, node: Node) -> None:
        found = os.stat(file)
        self._nodes[(found.st_dev, found.st_ino)] = node

    # -- the loss of power ---------------------------------------------------------------------------------------------

    def lose(self, directory: str) -> None:
        """The machine of this directory, which is there itself, loses its power."""
        parent, name = self._parent(directory)
        assert parent is not None
        before = parent.names[name]
        assert isinstance(before, Directory)
        self._check(Path(directory), before)
        after = before.after_power_loss(self._rng)
        self.lost_bytes += max(0, before.size() - after.size())
        parent.names[name] = parent.durable[name] = after
        self._restoring = True
        try:
            shutil.rmtree(directory)
            self._restore(directory, after)
        finally:
            self._restoring = False

    def _restore(self, path: str, node: Node) -> None:
        if isinstance(node, File):
            Path(path).write_bytes(node.durable)
        else:
            _REAL_MKDIR(path)
            for name, each in node.names.items():
                self._restore(os.path.join(path, name), each)
        self._register(path, node)

    def _check(self, path: Path, node: Node) -> None:
        """What is kept book of is what is there: no call that changes files goes past this."""
        if isinstance(node, File):
            assert path.read_bytes() == node.content, path
        else:
            assert sorted(os.listdir(path)) == sorted(node.names), path
            for name, each in node.names.items():
                self._check(path / name, each)
