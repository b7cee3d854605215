"""Which `odradek dev` clusters of this user run: each notes its addresses in a file of the user's state directory.

A note holds as long as its writer lives: the writer keeps the file locked, and the system lets go of the lock when the
process ends, however it ends. Who finds a note without a lock removes it, and the temporary directory that it names.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

TEMPORARY_PREFIX = "odradek-dev-"
_MAX_BYTES = 65_536


@dataclass(frozen=True)
class RunningCluster:
    """What a note says. ``temporary`` is the directory that goes with the cluster, empty when its data is kept;
    ``client_config`` a file that says how to log in, empty for plain text."""

    pid: int
    bootstrap: str
    zookeeper: str
    temporary: str = ""
    client_config: str = ""


def notes_directory() -> Path:
    """``$XDG_STATE_HOME/odradek/dev``, else below ``~/.local/state``."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "odradek" / "dev"


@contextlib.contextmanager
def noted(cluster: RunningCluster) -> Iterator[None]:
    """The note of a cluster that runs while the block does. A state directory that can't be written costs only the
    note."""
    try:
        directory = notes_directory()
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = directory / f"{cluster.pid}.json"
        # Written and locked under another name, so that nobody sees a note that is not locked yet.
        fresh = directory / f".{cluster.pid}.new"
        file = fresh.open("w")
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump(asdict(cluster), file)
        file.flush()
        fresh.rename(path)
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        file.close()


def running_clusters() -> list[RunningCluster]:
    """Clusters whose `odradek dev` lives, the newest first. Stale notes are removed on the way."""
    found = []
    try:
        paths = sorted(notes_directory().glob("*.json"), key=_age, reverse=True)
    except (OSError, RuntimeError):
        return []
    for path in paths:
        with contextlib.suppress(OSError, ValueError, TypeError), path.open() as file:
            cluster = RunningCluster(**json.loads(file.read(_MAX_BYTES)))
            if _is_locked(file.fileno()):
                found.append(cluster)
                continue
            path.unlink()
            _remove_temporary(cluster.temporary)
    return found


def _age(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _is_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _remove_temporary(name: str) -> None:
    """Only what `odradek dev` makes: a note is a file that others might have written."""
    path = Path(name)
    if name and path.parent == Path(tempfile.gettempdir()) and path.name.startswith(TEMPORARY_PREFIX):
        shutil.rmtree(path, ignore_errors=True)
