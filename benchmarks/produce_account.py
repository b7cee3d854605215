"""Where the broker's CPU goes in a produce of large batches: a table of every part, by sampling with native frames.

    python -m benchmarks.produce_account [--requests N] [--size BYTES]

Needs Linux's `perf`. As in `benchmarks.request_path` the reader of a whole broker is driven from here; a second thread
sends Produce requests of about 1 MB one after the other, as a client does that always has a batch ready, and `perf`
samples only the thread that serves. Each sample belongs to one part: to the system call that it is in, else to the
library that it is in. The data goes to the directory of temporary files (`TMPDIR`).
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.request_path import PRODUCE, DrivenConnection, batch, driven_broker, frames_of, produce, start_embedded

BATCH_BYTES = 980_000  # a processor itself serves requests of up to 1 MiB
RECORD_OVERHEAD = 12
# The first that matches a symbol of the stack, from the innermost on.
CALLS = {
    "sys_pwrite64": "write to the log file",
    "sys_pwritev": "write to the log file",
    "sys_recvfrom": "read from the socket",
    "sys_sendto": "answer",
    "sys_select": "waiting for bytes",
    "sys_pselect6": "waiting for bytes",
    "sys_futex": "locks",
    "asm_exc_page_fault": "page faults",
    "sys_": "other system calls",
}
LIBRARIES = {
    "_crc32c": "CRC",
    "libpython": "the interpreter",
    "python": "the interpreter",
    "libc": "C library (copies, zeroes, memory)",
    "vdso": "clock",
    "[kernel": "kernel, outside a call",
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


def serve(path: DrivenConnection, frame: bytes, requests: int) -> float:
    """CPU seconds of this thread for so many requests."""

    def send() -> None:
        for _ in range(requests):
            path.send(frame)

    sender = threading.Thread(target=send)
    sender.start()
    began = time.thread_time()
    while path.serve_what_comes(0.5) or sender.is_alive():
        pass
    spent = time.thread_time() - began
    sender.join()
    path.receive(requests)
    return spent


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.produce_account", description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=1000, help="so many of about 1 MB (1000)")
    parser.add_argument("--size", type=int, default=1000, help="bytes of a record's value (1000)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="produce-account-") as name:
        directory = Path(name)
        server = start_embedded(directory)
        try:
            with driven_broker(directory, server.connect) as path:
                frame = frames_of(
                    PRODUCE, produce(batch(BATCH_BYTES // (options.size + RECORD_OVERHEAD), options.size)), 1
                )
                serve(path, frame, 20)
                samples = directory / "samples"
                perf = subprocess.Popen(
                    ["perf", "record", "-F", "1999", "-g", "-t", str(threading.get_native_id()), "-o", str(samples)],
                    stderr=subprocess.DEVNULL,
                )
                time.sleep(1)
                spent = serve(path, frame, options.requests)
                perf.send_signal(signal.SIGINT)
                perf.wait()
        finally:
            server.stop()
        done = subprocess.run(
            ["perf", "script", "-F", "ip,sym,dso", "-i", str(samples)], capture_output=True, text=True, check=True
        )
    found = parts(done.stdout)
    gigabytes = len(frame) * options.requests / 1e9
    print(f"{spent / gigabytes:.2f} s of CPU a GB, {found.total()} samples\n\n| part | of it | s a GB |\n|---|---|---|")
    for part, count in found.most_common():
        share = count / found.total()
        print(f"| {part} | {share:.1%} | {share * spent / gigabytes:.3f} |")


if __name__ == "__main__":
    main()
