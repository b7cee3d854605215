"""`partition.metadata`: the topic id of a partition directory."""

from __future__ import annotations

import base64
import binascii
import os
import re
from pathlib import Path

from log.errors import InconsistentMetadataError, StorageError
from log.files.checkpoint import replace_file

PARTITION_METADATA = "partition.metadata"
_ZERO_ID = bytes(16)
_LINE = re.compile(r"\s*(\w+)\s*:\s+(\S+)\s*")


class PartitionMetadataFile:
    """The file in one partition directory. `log_directory` names the directory that goes offline on an I/O error."""

    __slots__ = ("_directory", "_log_directory")

    def __init__(self, directory: str | os.PathLike[str], log_directory: str | None = None) -> None:
        self._directory = os.fspath(directory)
        self._log_directory = log_directory or os.path.dirname(self._directory)

    @property
    def path(self) -> Path:
        return Path(self._directory) / PARTITION_METADATA

    def read(self) -> bytes | None:
        """The topic id (16 bytes), or None when there is no file.

        Raises InconsistentMetadataError when it does not parse, and StorageError.
        """
        try:
            text = self.path.read_bytes().decode("utf-8", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error}", self._log_directory) from error
        lines = text.splitlines()
        fields = [match.groups() for line in lines[:2] if (match := _LINE.fullmatch(line))]
        if len(fields) != 2:
            raise InconsistentMetadataError(f"{self.path}: expected a version line and a topic_id line")
        (version_key, version), (id_key, topic_id) = fields
        if version_key != "version" or not version.isdigit():
            raise InconsistentMetadataError(f"{self.path}: expected a version, found {lines[0]!r}")
        if id_key != "topic_id":
            raise InconsistentMetadataError(f"{self.path}: expected a topic_id, found {lines[1]!r}")
        try:
            found = base64.urlsafe_b64decode(topic_id + "=" * (-len(topic_id) % 4))
        except (binascii.Error, ValueError):
            found = b""
        if len(found) != 16 or found == _ZERO_ID:
            raise InconsistentMetadataError(f"{self.path}: {topic_id!r} is no topic id")
        return found

    def write(self, topic_id: bytes, *, sync_name: bool = True) -> None:
        """Writes the file durably; its content only, without `sync_name`.

        Raises ValueError for an id that is none, and StorageError.
        """
        if len(topic_id) != 16 or topic_id == _ZERO_ID:
            raise ValueError(f"{topic_id.hex()} is no topic id")
        encoded = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
        try:
            replace_file(self.path, f"version: 0\ntopic_id: {encoded}".encode(), sync_name=sync_name)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error}", self._log_directory) from error

    def delete(self) -> None:
        """Removes the file, if there is one. Raises StorageError."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"cannot delete {self.path}: {error}", self._log_directory) from error
