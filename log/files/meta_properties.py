"""`meta.properties`: which cluster and broker a log directory belongs to."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from log.errors import InconsistentMetadataError, StorageError
from log.files.checkpoint import replace_file
from log.files.properties_text import format_properties, parse_properties

META_PROPERTIES = "meta.properties"
VERSION = 0


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content, in the layout of ZooKeeper mode (version 0). `directory_id` is kept when a file has one."""

    cluster_id: str | None = None
    broker_id: int | None = None
    directory_id: str | None = None


def read_meta_properties(log_directory: str | os.PathLike[str]) -> MetaProperties | None:
    """The file's content, or None when there is no file.

    Raises InconsistentMetadataError when it does not parse or was written in KRaft mode (version 1): then the broker
    must not start. Raises StorageError when it cannot be read: then the directory is offline.
    """
    path = Path(log_directory) / META_PROPERTIES
    try:
        text = path.read_bytes().decode("latin-1")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error}", os.fspath(log_directory)) from error
    try:
        values = parse_properties(text)
    except ValueError as error:
        raise InconsistentMetadataError(f"{path}: {error}") from None
    version = _integer(path, values, "version", VERSION)
    if version != VERSION:
        raise InconsistentMetadataError(
            f"{path} has version {version}; a broker in ZooKeeper mode needs version {VERSION}"
        )
    broker_id = _integer(path, values, "broker.id", None)
    if broker_id is not None and broker_id < 0:
        raise InconsistentMetadataError(f"{path}: broker.id {broker_id} is negative")
    return MetaProperties(values.get("cluster.id"), broker_id, values.get("directory.id"))


def _integer(path: Path, values: Mapping[str, str], key: str, default: int | None) -> int | None:
    text = values.get(key)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise InconsistentMetadataError(f"{path}: {key} is {text!r}, not a number") from None


def write_meta_properties(log_directory: str | os.PathLike[str], properties: MetaProperties, now_ms: int = 0) -> bool:
    """Writes the file durably unless it already says the same; True when it was written. Raises StorageError."""
    if read_meta_properties(log_directory) == properties:
        return False
    values = {"version": str(VERSION)}
    if properties.cluster_id is not None:
        values["cluster.id"] = properties.cluster_id
    if properties.broker_id is not None:
        values["broker.id"] = str(properties.broker_id)
    if properties.directory_id is not None:
        values["directory.id"] = properties.directory_id
    written = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now_ms / 1000))
    path = Path(log_directory) / META_PROPERTIES
    try:
        replace_file(path, format_properties(values, written).encode("latin-1"))
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error}", os.fspath(log_directory)) from error
    return True


def ensure_meta_properties(
    log_directory: str | os.PathLike[str], broker_id: int, cluster_id: str | None, now_ms: int = 0
) -> MetaProperties:
    """Checks the file of one directory against this broker, and writes it where it is missing or says less.

    Raises InconsistentMetadataError and StorageError as the functions of this module do.
    """
    found = read_meta_properties(log_directory)
    stored = check_meta_properties({os.fspath(log_directory): found}, cluster_id, broker_id)
    wanted = MetaProperties(
        cluster_id=cluster_id or (found.cluster_id if found else None),
        broker_id=broker_id if broker_id >= 0 else stored,
        directory_id=found.directory_id if found else None,
    )
    write_meta_properties(log_directory, wanted, now_ms)
    return wanted


def check_meta_properties(
    found: Mapping[str, MetaProperties | None], cluster_id: str | None, broker_id: int
) -> int | None:
    """Whether the directories (path to content) fit together and to this broker.

    Returns the broker id that the files name, or None when none does. `broker_id` -1 accepts any. Raises
    InconsistentMetadataError on another cluster or broker id, on directories of different brokers, and on a directory
    id that occurs twice.
    """
    known = {path: content for path, content in found.items() if content is not None}
    for path, content in known.items():
        if cluster_id is not None and content.cluster_id not in (None, cluster_id):
            raise InconsistentMetadataError(
                f"{path} belongs to cluster {content.cluster_id}, but this broker joins cluster {cluster_id}"
            )
    ids = {content.broker_id for content in known.values() if content.broker_id is not None}
    if len(ids) > 1:
        raise InconsistentMetadataError(f"the log directories belong to different brokers: {sorted(ids)}")
    stored = next(iter(ids), None)
    if stored is not None and broker_id >= 0 and stored != broker_id:
        raise InconsistentMetadataError(f"the log directories belong to broker {stored}, but broker.id is {broker_id}")
    duplicate = _first_duplicate(content.directory_id for content in known.values())
    if duplicate is not None:
        raise InconsistentMetadataError(f"two log directories have the directory.id {duplicate}")
    return stored


def _first_duplicate(ids: Iterable[str | None]) -> str | None:
    seen: set[str] = set()
    for item in ids:
        if item is None:
            continue
        if item in seen:
            return item
        seen.add(item)
    return None
