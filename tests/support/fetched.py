"""Files that are fetched once and kept for other runs, by whichever process comes first."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

_COMPLETE = ".complete"


def fetched_once(folder: Path, fetch: Callable[[], None]) -> Path:
    """The folder with all that `fetch` puts into it, again where that was broken off. Raises what it raises."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / _COMPLETE).exists():
            fetch()
            (folder / _COMPLETE).touch()
    return folder
