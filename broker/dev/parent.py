"""A child process that ends when its parent does, however the parent ends.

On Linux the kernel does it: `prctl(PR_SET_PDEATHSIG)`, which survives an `exec` (so Java has it too) and belongs to the
thread that made the child: only threads that live as long as their process may start such children. Elsewhere, or
where ODRADEK_PARENT_WATCH=pipe asks for it, the child watches a pipe whose other end only the parent holds.

The standard library only: a child calls `end_with_parent` before it imports anything else of ours. A program that is
not ours is run by this file as a script: ``python parent.py COMMAND...``.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PARENT = "ODRADEK_PARENT_PID"
PIPE = "ODRADEK_PARENT_PIPE"
METHOD = "ODRADEK_PARENT_WATCH"
_PR_SET_PDEATHSIG = 1

_pipe: tuple[int, int] | None = None
# What a child that watches a pipe does before it ends.
_last_acts: list[Callable[[], object]] = []


def uses_pipe() -> bool:
    """Whether children watch a pipe instead of asking the kernel."""
    return not sys.platform.startswith("linux") or os.environ.get(METHOD) == "pipe"


def tie() -> tuple[dict[str, str], tuple[int, ...]]:
    """For the parent: the environment and the inherited descriptors of a child that shall end with this process."""
    global _pipe
    environment = {PARENT: str(os.getpid())}
    if not uses_pipe():
        return environment, ()
    if _pipe is None:
        _pipe = os.pipe()
    return {**environment, PIPE: str(_pipe[0])}, (_pipe[0],)


def end_with_parent() -> bool:
    """For the child, at its very start: from here on it ends with its parent. False when no parent has asked for it."""
    parent = os.environ.pop(PARENT, None)
    pipe = os.environ.pop(PIPE, None)
    if parent is None:
        return False
    if pipe is not None:
        import threading

        threading.Thread(target=_watch, args=(int(pipe),), name="parent-watch", daemon=True).start()
        return True
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != int(parent):
        os._exit(1)  # it died before the kernel was asked
    return True


def at_end(act: Callable[[], object]) -> None:
    """For the child: what to do before it ends with its parent. Only where it watches a pipe: the kernel's signal
    leaves no time for it."""
    _last_acts.append(act)


def _watch(pipe: int) -> None:
    """Nobody writes to the pipe: a read returns when the last process that holds the other end has gone."""
    os.read(pipe, 1)
    try:
        for act in _last_acts:
            act()
    finally:
        os._exit(1)


def run(command: list[str]) -> int:
    """Become the command, or, where the parent is watched through a pipe, run it and end with it."""
    if PIPE not in os.environ:
        end_with_parent()
        os.execvp(command[0], command)
    import subprocess

    process = subprocess.Popen(command)
    at_end(process.kill)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: process.send_signal(received))
    end_with_parent()
    return process.wait()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
