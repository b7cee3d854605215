"""A module run as a program of its own that is ended in time, and leaves neither processes nor files behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.paths import ROOT

GRACE_S = 90.0
"""For a module that is asked to end: it stops its brokers, which takes them a while."""

SHOWN = 5
_PROGRAM = (
    "import runpy, signal, sys\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit('ended'))\n"
    "signal.signal(signal.SIGINT, lambda *_: sys.exit('ended'))\n"
    "sys.argv = sys.argv[1:]\n"
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
)


def run_bounded(
    module: str,
    arguments: Sequence[str],
    limit_s: float,
    log: Callable[[str], None],
    grace_s: float = GRACE_S,
) -> str:
    """What it printed; what it says on standard error goes to `log` line by line.

    Raises RuntimeError with the end of that when it fails, or is not done within `limit_s`.
    """
    # Not below the place where it runs: the paths of sockets are short.
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    said: deque[str] = deque(maxlen=SHOWN)
    with (directory / "stdout").open("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, module, *arguments],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(directory)},
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        listener = threading.Thread(target=_listen, args=(process, said, log), daemon=True)
        listener.start()
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise RuntimeError(
                f"not done within {limit_s:g} s; last it said: {said[-1] if said else 'nothing'}"
            ) from None
        finally:
            _end(process, directory, grace_s)
            listener.join(5)
            output.seek(0)
            printed = output.read()
            shutil.rmtree(directory, ignore_errors=True)
    if code:
        raise RuntimeError("\n".join(said) or f"exit code {code}")
    return printed


def _listen(process: subprocess.Popen[str], said: deque[str], log: Callable[[str], None]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.strip():
            said.append(line.rstrip())
            log(line.rstrip())


def _end(process: subprocess.Popen[str], directory: Path, grace_s: float) -> None:
    """In order if it still runs, and then whatever it has left behind."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    for pid in left_behind(directory):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def left_behind(directory: Path) -> list[int]:
    """Processes that have inherited this `TMPDIR`, whoever their parent is by now."""
    mark = f"TMPDIR={directory}".encode()
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (each / "environ").read_bytes().split(b"\0"):
                found.append(int(each.name))
    return found
