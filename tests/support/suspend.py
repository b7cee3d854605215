"""Processes that stand still."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from broker.dev.polling import wait_until
from timer.clock import SystemClock

# "Z": a thread that has ended.
_STOPPED = {"T", "Z"}


def suspend(pid: int) -> None:
    """SIGSTOP, and wait until every thread has stopped: the signal alone lets threads run on for a moment."""
    os.kill(pid, signal.SIGSTOP)
    assert wait_until(lambda: _states(pid) <= _STOPPED, SystemClock(), 10_000, 1), (
        f"{pid} does not stop: {_states(pid)}"
    )


def _states(pid: int) -> set[str]:
    """One letter for each thread, as proc(5) has them; those that end meanwhile are left out."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            stat = (task / "stat").read_text()
        except OSError:
            continue
        found.add(stat.rpartition(") ")[2][0])
    return found
