"""What a test has open. A worker's other threads (clients that earlier tests left, sessions) open and close files of
their own meanwhile, so a bare count of descriptors fails now and then."""

from __future__ import annotations

import os
from pathlib import Path

_IN_MEMORY = "/memfd:"
_OF_PACKETS = "0005"  # SOCK_SEQPACKET in the type column of /proc/net/unix


def open_files(folder: Path) -> set[tuple[int, str]]:
    """Descriptors of this process for files below `folder`, files in memory and sockets of packets, each with what it
    is: kinds that no client has. What `later - before` holds has been opened in between."""
    packets = _sockets_of_packets()
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # closed meanwhile
            continue
        if target.startswith((f"{folder}/", _IN_MEMORY)) or target in packets:
            found.add((int(name), target))
    return found


def _sockets_of_packets() -> set[str]:
    rows = (line.split() for line in Path("/proc/self/net/unix").read_text().splitlines()[1:])
    return {f"socket:[{row[6]}]" for row in rows if row[4] == _OF_PACKETS}
