"""What tests rely on when they pause a process."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.support.suspend import suspend

# Three threads that count as fast as they can.
BUSY = """
import mmap, sys, threading
file = open(sys.argv[1], "r+b")
shared = mmap.mmap(file.fileno(), 24)
def count(place):
    value = 0
    while True:
        value += 1
        shared[place:place + 8] = value.to_bytes(8, "little")
for n in range(3):
    threading.Thread(target=count, args=(8 * n,)).start()
"""


def test_no_thread_goes_on(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    counts.write_bytes(bytes(24))
    process = subprocess.Popen([sys.executable, "-c", BUSY, str(counts)])
    try:
        deadline = time.monotonic() + 30
        while 0 in [counts.read_bytes()[8 * n] for n in range(3)] and time.monotonic() < deadline:
            time.sleep(0.01)
        suspend(process.pid)
        found = counts.read_bytes()
        assert found != bytes(24)
        for _ in range(50):
            time.sleep(0.002)
            assert counts.read_bytes() == found
    finally:
        process.kill()
        process.wait(30)
