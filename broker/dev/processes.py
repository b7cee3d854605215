"""A child process with a log file, that is always stopped and reaped."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# Longer than a broker's controlled shutdown; then the process is killed.
STOP_TIMEOUT_S = 30.0


class ManagedProcess:
    """A program in a session of its own, so that Ctrl-C reaches only its manager, who stops it in order.

    Standard output and error go to ``log_file``.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_file: Path,
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self.name = name
        self.log_file = log_file
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with log_file.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if environment is None else {**os.environ, **environment},
                cwd=directory,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Exit code, None while it runs (negative: the signal that ended it)."""
        return self._process.poll()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal if it still runs."""
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def terminate(self) -> None:
        """Ask it to stop (SIGTERM)."""
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, and reap it."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """SIGTERM, wait, and kill it when the time is over. Returns the exit code."""
        self.signal(signal.SIGCONT)
        self.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def log_tail(self, lines: int = 20) -> str:
        """The end of its log."""
        with contextlib.suppress(OSError):
            size = self.log_file.stat().st_size
            with self.log_file.open("rb") as file:
                file.seek(max(0, size - 16_384))
                return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-lines:])
        return ""


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports that nobody listens on at the moment, all different."""
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(count):
            listener = stack.enter_context(socket.socket())
            listener.bind((host, 0))
            ports.append(int(listener.getsockname()[1]))
        return ports


def is_listening(host: str, port: int) -> bool:
    """Whether a connection is accepted now."""
    try:
        with socket.create_connection((host, port), 1.0):
            return True
    except OSError:
        return False
