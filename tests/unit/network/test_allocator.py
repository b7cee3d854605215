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

THREADS = """
import ctypes, threading
from network.allocator import keep_freed_memory
kept = keep_freed_memory()
bound = threading.Barrier(20)
def work():
    held = [bytearray(5_000) for _ in range(10)]
    bound.wait(30)
threads = [threading.Thread(target=work) for _ in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fflush.argtypes = [ctypes.c_void_p]
print(kept, flush=True)
if kept:
    out = libc.fdopen(1, b"w")
    libc.malloc_info(0, out)
    libc.fflush(out)
"""


def test_large_buffers_are_made_of_kept_memory() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=60)
    kept, faults = done.stdout.split()
    if kept == "False":
        pytest.skip("not glibc")
    pages = 200 * 1_900_000 // resource.getpagesize()
    assert int(faults) < pages / 20


def test_threads_share_two_arenas() -> None:
    """With one for each, what 40 threads of a broker have freed lies in 16 places."""
    done = subprocess.run([sys.executable, "-c", THREADS], cwd=ROOT, capture_output=True, text=True, timeout=60)
    kept, _, shown = done.stdout.partition("\n")
    if kept == "False":
        pytest.skip("not glibc")
    assert shown.count("<heap nr=") == 2
