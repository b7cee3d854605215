"""A command of ours as a process of its own, and what is left of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from broker.dev.polling import wait_until
from tests.support.cluster import CLOCK, ROOT, python_environment

TIMEOUT_MS = 60_000
READY = re.compile(r"ready: bootstrap\.servers=(\S+) zookeeper\.connect=(\S+)")


class Command:
    """A running command with its output in files."""

    def __init__(self, directory: Path, *arguments: str, **environment: str) -> None:
        self.output = directory / "stdout"
        self.errors = directory / "stderr"
        with self.output.open("wb") as out, self.errors.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "broker", *arguments],
                stdout=out,
                stderr=err,
                cwd=ROOT,
                env={
                    **os.environ,
                    **python_environment(),
                    "TMPDIR": str(directory),
                    "XDG_STATE_HOME": str(directory / "state"),
                    **environment,
                },
            )

    def wait_ready(self) -> re.Match[str]:
        def ready() -> bool:
            assert self.process.poll() is None, self.errors.read_text()
            return "ready:" in self.output.read_text()

        assert wait_until(ready, CLOCK, TIMEOUT_MS), self.errors.read_text()
        match = READY.fullmatch(self.lines[0])
        assert match is not None, self.lines
        return match

    @property
    def lines(self) -> list[str]:
        """Of standard output."""
        return self.output.read_text().splitlines()

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


def processes_below(directory: Path) -> dict[int, str]:
    """Processes whose command line names a file below the directory, or whose temporary files are made there."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                environment = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(directory) in command or f"TMPDIR={directory}".encode() in environment:
                found[int(entry.name)] = command
    return found
