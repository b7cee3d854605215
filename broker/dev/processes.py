"""A child process with a log file, that is always stopped and reaped."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import broker
from broker.cli.errors import CommandError
from broker.dev.parent import tie
from timer.chance import SystemChance

# The command line as a program of its own: a child that finds our packages whatever lies in the working directory.
ODRADEK = (sys.executable, "-P", str(Path(broker.__file__).resolve().parents[1] / "odradek" / "__main__.py"))
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
        tied: bool = False,
    ) -> None:
        """``tied``: it ends with this process, however this one ends, if its program calls `end_with_parent`."""
        self.name = name
        self.log_file = log_file
        log_file.parent.mkdir(parents=True, exist_ok=True)
        tie_environment, inherited = tie() if tied else ({}, ())
        environment = {**tie_environment, **(environment or {})}
        with log_file.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                pass_fds=inherited,
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
        """SIGKILL to it and to what it has started in its session, and reap it."""
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
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


# Below the range from which systems take the ports of outgoing connections: one of those could be in use again
# before its new owner has bound it.
PORTS = range(10_000, 32_768)
_given: set[int] = set()


def free_ports(count: int, host: str = "127.0.0.1", *, consecutive: bool = False) -> list[int]:
    """Ports that nobody listens on at the moment, all different, or one behind the other. Raises CommandError.

    None is given a second time soon: who got it may not listen yet.
    """
    chance = SystemChance()
    if len(_given) > len(PORTS) // 2:
        _given.clear()
    for _ in range(1000):
        start = chance.choice(PORTS[: len(PORTS) - count])
        ports = list(range(start, start + count)) if consecutive else chance.sample(PORTS, count)
        if _given.isdisjoint(ports) and all(_is_free(host, port) for port in ports):
            _given.update(ports)
            return ports
    raise CommandError(f"no {count} free ports on {host}")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError:
            return False
        return True


def is_listening(host: str, port: int) -> bool:
    """Whether a connection is accepted now."""
    try:
        with socket.create_connection((host, port), 1.0):
            return True
    except OSError:
        return False
