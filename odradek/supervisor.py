"""The supervisor of a cluster, seen from the program that uses it: its process, and a connection that steers it.

The supervisor (`odradek dev --control`) starts ZooKeeper and the brokers, answers requests, and ends everything when
the last connection to it has gone, however its owner ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from odradek._path import MAIN
from odradek.errors import ClusterError

_HOST = "127.0.0.1"
_TOKEN = "ODRADEK_CONTROL_TOKEN"
# The supervisor stops a cluster in seconds; the last resort against one that hangs.
_STOP_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S = 10.0
# Longer than anything that the supervisor itself gives up on.
_ANSWER_TIMEOUT_S = 180.0


@dataclass(frozen=True)
class Address:
    """Where a supervisor listens, and what it wants to hear first."""

    port: int
    token: str
    pid: int


class Connection:
    """One connection to a supervisor; it keeps the cluster alive. Threads take turns."""

    def __init__(self, address: Address) -> None:
        """Raises ClusterError."""
        self._lock = threading.Lock()
        try:
            self._socket = socket.create_connection((_HOST, address.port), _CONNECT_TIMEOUT_S)
            self._socket.settimeout(_ANSWER_TIMEOUT_S)
            self._socket.sendall(address.token.encode() + b"\n")
        except OSError as error:
            raise ClusterError(f"the cluster's supervisor does not answer: {error}") from error
        self._answers = self._socket.makefile("rb")

    def ask(self, do: str, **arguments: Any) -> Any:
        """One request and its answer. Raises ClusterError with what went wrong."""
        request = json.dumps({"do": do, **arguments}).encode() + b"\n"
        try:
            with self._lock:
                self._socket.sendall(request)
                line = self._answers.readline()
        except (OSError, ValueError) as error:
            raise ClusterError(f"the cluster's supervisor does not answer: {error}") from error
        if not line:
            raise ClusterError("the cluster has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise ClusterError(answer["error"])
        return answer["ok"]

    def leave(self) -> None:
        """Let go of the cluster; if nobody else is connected, it has ended when this returns."""
        with contextlib.suppress(ClusterError, OSError):
            if self.ask("leave"):
                self._answers.read()
        self.close()

    def close(self) -> None:
        """Let go of the cluster."""
        with contextlib.suppress(OSError):
            self._answers.close()
            self._socket.close()


class SupervisorProcess:
    """The process. In a session of its own, so that Ctrl-C reaches only the program, which stops it in order."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """Returns once it listens. Raises ClusterError."""
        token = secrets.token_hex(16)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (for as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-P", MAIN, "dev", "--control", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, _TOKEN: token},
            start_new_session=True,
        )
        assert self._process.stdout is not None
        with self._process.stdout as output:
            line = output.readline()
        if not line:
            self._process.wait()
            raise ClusterError(self.errors().removeprefix("odradek: ") or "the cluster's supervisor ended at start")
        self.address = Address(json.loads(line)["port"], token, self._process.pid)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def errors(self) -> str:
        """What it has said of what went wrong."""
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace").strip()

    def stop(self) -> None:
        """End the cluster; everything has ended when this returns."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # and with it, by the system, its children
            self._process.wait()
        self._errors.close()

    def leave(self) -> None:
        """Let it run for as long as somebody else is connected to it."""
        self._errors.close()
        self._process.returncode = 0  # no warning that it still runs
