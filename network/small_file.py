"""Files whose names come from a configuration, read whole."""

from __future__ import annotations

import os
import stat


def read_small(location: str, max_bytes: int) -> bytes:
    """What is in the file. The name may have come over the wire: what is no file, or a huge one, is refused before it
    takes memory or time. Raises OSError, whose `strerror` says why."""
    # Opening a pipe would wait for its writer.
    with open(os.open(location, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it is no file", location)
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(0, f"it has more than {max_bytes} bytes", location)
    return data
