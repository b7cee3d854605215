"""Files that are their owner's alone."""

from __future__ import annotations

import os
from pathlib import Path

_MODE = 0o600


def write_private(path: Path, data: bytes) -> None:
    """All of it or nothing, in the place of what was there. Never readable for others, not for a moment."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "wb") as file:
        file.write(data)
    fresh.replace(path)
