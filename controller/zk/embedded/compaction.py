"""``python -m controller.zk.embedded.compaction DIR``: a snapshot out of files that nobody writes any more.

A process of its own beside the server, so that the server never stands still for a snapshot. What is newest in the
directory belongs to the server; the rest becomes one snapshot. Killed at any moment it leaves the state as it was.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from controller.zk.embedded import snapshots
from controller.zk.embedded.machine import Limits
from controller.zk.embedded.sessions import Sessions
from controller.zk.embedded.snapshots import files


def compact(directory: Path) -> None:
    """Raises StoreError and OSError."""
    closed = files(directory, "log")[:-1]
    if not closed:
        return
    machine = snapshots.recover(directory, Sessions(1, b""), Limits(), 0, closed)
    snapshots.write_snapshot(directory, machine)
    for zxid, path in files(directory, "snapshot"):
        if zxid < machine.zxid:
            path.unlink(missing_ok=True)
    for _, path in closed:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    os.nice(10)
    compact(Path(sys.argv[1]))
