from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

PROGRAM = """
import resource
from network.allocator import keep_freed_memory
kept = keep_freed_memory()
def work():
    first, second = bytearray(1_000_000), bytes(900_000)
for _ in range(50): work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(200): work()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_large_buffers_are_made_of_kept_memory() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=60)
    kept, faults = done.stdout.split()
    if kept == "False":
        pytest.skip("not glibc")
    pages = 200 * 1_900_000 // resource.getpagesize()
    assert int(faults) < pages / 20
