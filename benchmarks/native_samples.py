"""Samples of a process with native frames, by Linux's `perf`, and the part of a broker's work that each belongs to."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

_FREQUENCY_HZ = 1999
_ATTACH_S = 0.5
# The first that matches a symbol of the stack, from the innermost on.
CALLS = {
    "asm_exc_page_fault": "page faults",
    "sys_pwrite": "write to the log file",
    "sys_recvfrom": "read from the socket",
    "sys_recvmsg": "read from the socket",
    "sys_sendto": "answer",
    "sys_sendmsg": "answer",
    "sys_sendfile": "file to the socket",
    "sys_pread": "look into the page cache, small reads",
    "sys_epoll": "waiting for bytes",
    "sys_select": "waiting for bytes",
    "sys_pselect6": "waiting for bytes",
    "sys_poll": "waiting for bytes",
    "sys_futex": "locks",
    "sys_": "other system calls",
}
LIBRARIES = {
    "_crc32c": "CRC",
    "libpython": "the interpreter",
    "python": "the interpreter",
    "libc": "C library (copies, zeroes, memory)",
    "libm": "C library (copies, zeroes, memory)",
    "vdso": "clock",
    "[kernel": "kernel, outside a call",
    "[unknown]": "kernel, outside a call",
}


def part_of(stack: Sequence[tuple[str, str]]) -> str:
    """The part that a sample belongs to; `stack` has symbol and library, the innermost frame first."""
    for symbol, _ in stack:
        for call, part in CALLS.items():
            if call in symbol:
                return part
    library = stack[0][1] if stack else ""
    return next((part for name, part in LIBRARIES.items() if name in library), library or "unknown")


def parts(script: str) -> Counter[str]:
    """Samples by part, of what `perf script -F ip,sym,dso` prints."""
    counts: Counter[str] = Counter()
    for sample in script.split("\n\n"):
        stack = []
        for line in sample.strip().splitlines():
            symbol, _, library = line.strip().partition(" ")[2].rpartition(" (")
            stack.append((symbol, library.removesuffix(")").rsplit("/", 1)[-1]))
        if stack:
            counts[part_of(stack)] += 1
    return counts


def sampled(pid: int, work: Callable[[], None], file: Path) -> Counter[str]:
    """Do `work` while all threads of `pid` are sampled into `file`; samples by part. Only time on a core counts.

    Raises RuntimeError where `perf` may not look, FileNotFoundError where there is none.
    """
    perf = subprocess.Popen(
        ["perf", "record", "-F", str(_FREQUENCY_HZ), "-g", "-p", str(pid), "-o", str(file)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        time.sleep(_ATTACH_S)
        if perf.poll() is None:
            work()
    finally:
        perf.send_signal(signal.SIGINT)
        _, said = perf.communicate()
    if not file.exists() or not file.stat().st_size:
        raise RuntimeError(f"perf recorded nothing: {said.strip()}")
    script = ["perf", "script", "-F", "ip,sym,dso", "-i", str(file)]
    return parts(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
