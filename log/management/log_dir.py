"""One log directory: its lock, its checkpoints, its clean-shutdown marker, and the partition directories in it."""

from __future__ import annotations

import fcntl
import json
import logging
import os

from log.errors import LogError
from log.files.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
    fsync_directory,
)
from log.files.handles import unlink_if_exists
from log.files.names import CLEAN_SHUTDOWN_FILE, LOCK_FILE

logger = logging.getLogger(__name__)

SKIPPED_DIRECTORIES = ("remote-log-index-cache",)


class LogDirLockedError(LogError):
    """Another process holds the log directory; the broker must not start."""


class LogDir:
    """Everything of a log directory that is not a partition's. Methods raise `OSError` when the disk fails."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.recovery_points = OffsetCheckpoint(os.path.join(path, RECOVERY_POINT_CHECKPOINT), path)
        self.log_start_offsets = OffsetCheckpoint(os.path.join(path, LOG_START_OFFSET_CHECKPOINT), path)
        self.high_watermarks = OffsetCheckpoint(os.path.join(path, HIGH_WATERMARK_CHECKPOINT), path)
        self.had_clean_shutdown = False
        self.loading_finished = False
        self._lock_fd = -1

    def prepare(self) -> None:
        """Create the directory if it is missing, and the checkpoint files as empty ones."""
        if not os.path.isdir(self.path):
            logger.info("log directory %s does not exist: creating it", self.path)
            os.makedirs(self.path)
            fsync_directory(os.path.dirname(self.path) or "/")
        os.listdir(self.path)
        for checkpoint in (self.recovery_points, self.log_start_offsets, self.high_watermarks):
            checkpoint.create_if_absent()

    # ---- lock

    def lock(self) -> None:
        """Take the directory's lock, as the JVM does: a POSIX record lock on the whole `.lock` file.

        Raises `LogDirLockedError` if another process has it.
        """
        fd = os.open(os.path.join(self.path, LOCK_FILE), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise LogDirLockedError(
                f"cannot lock {os.path.join(self.path, LOCK_FILE)}: another broker is using this log directory "
                f"({error.strerror})"
            ) from error
        self._lock_fd = fd

    def unlock(self, *, remove: bool = True) -> None:
        """Give the lock back."""
        fd, self._lock_fd = self._lock_fd, -1
        if fd < 0:
            return
        try:
            if remove:
                unlink_if_exists(os.path.join(self.path, LOCK_FILE))
        finally:
            # Closing any descriptor of the file drops a POSIX lock.
            os.close(fd)

    # ---- clean-shutdown marker

    def take_clean_shutdown_marker(self) -> bool:
        """Whether the last stop was clean. The marker is deleted: from now on it would be a lie."""
        self.had_clean_shutdown = unlink_if_exists(os.path.join(self.path, CLEAN_SHUTDOWN_FILE))
        if self.had_clean_shutdown:
            fsync_directory(self.path)
        return self.had_clean_shutdown

    def write_clean_shutdown_marker(self) -> None:
        """The last thing written at a clean stop; vouches for everything in the directory."""
        path = os.path.join(self.path, CLEAN_SHUTDOWN_FILE)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.write(fd, json.dumps({"version": 0, "brokerEpoch": -1}, separators=(",", ":")).encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        fsync_directory(self.path)

    # ---- partition directories

    def partition_directories(self) -> list[str]:
        """Paths of the sub-directories that should be partitions."""
        return [
            entry.path
            for entry in sorted(os.scandir(self.path), key=lambda entry: entry.name)
            if entry.is_dir() and not _skipped(entry.name)
        ]

    def __repr__(self) -> str:
        return f"LogDir({self.path!r})"


def _skipped(name: str) -> bool:
    return name in SKIPPED_DIRECTORIES or name.startswith("__cluster_metadata-")
