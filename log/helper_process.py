"""A process that works for the broker: how it is started, how it ends, and what signals are to it.

Started anew, not forked: a fork of a process with threads has their locks, held for ever. Such a process ends when
its input does, so with the broker, however that ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import IO

_END_S = 2.0

Stream = int | IO[bytes]


def start_helper(module: str, stdin: Stream, stdout: Stream) -> subprocess.Popen[bytes]:
    """Run `module` by this interpreter; `stdin` and `stdout` are as Popen takes them. Raises OSError."""
    # -P: a user's own `log` in the working directory is not ours. A session of its own: a terminal's Ctrl-C is for
    # the broker, who then ends it in order.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=stdin,
        stdout=stdout,
        start_new_session=True,
    )


def reap(process: subprocess.Popen[bytes]) -> int:
    """The exit status of a process whose input has been closed; one that does not end by itself is killed."""
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return process.returncode


def leave_signals_to_the_broker() -> None:
    """In the process: a service manager tells all processes of a service to end; the broker tells this one."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
