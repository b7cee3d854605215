"""A program that waits for its stop ends whenever, and on whatever thread, the signal comes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.cluster import ROOT, python_environment

START = """
import os, signal, sys, threading
from broker.stop_signals import catch_stop_signals
wait = catch_stop_signals().wait
"""
CASES = {
    "before the wait": "os.kill(os.getpid(), signal.SIGTERM)",
    "several": "[os.kill(os.getpid(), number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTERM)]",
    "on another thread": """
def other():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
threading.Timer(0.3, other).start()
""",
    # As the first thing of the first call that the wait makes.
    "inside the wait": """
def profile(frame, event, argument):
    if event == "c_call":
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGTERM)
sys.setprofile(profile)
""",
    "another signal first": """
signal.signal(signal.SIGUSR1, lambda *_: None)
os.kill(os.getpid(), signal.SIGUSR1)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
""",
}


@pytest.mark.parametrize("case", CASES)
def test_every_stop_is_heard(case: str) -> None:
    script = f"{START}{CASES[case]}\nwait()\nprint('stopped')\n"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=python_environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr
