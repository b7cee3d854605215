"""The machine of docs/operations: brokers and ZooKeeper as units, `/etc`, `/var/lib` and `/backup` below one directory.

`systemctl` is what a test puts in its place; every other line of a page is run by bash as it stands, but for the paths.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from broker.dev.cluster import small_cluster_settings
from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper
from tests.support.cluster import CLOCK, ROOT, SETTINGS, Broker, python_environment

PAGES = ROOT / "docs" / "operations"
BROKERS = 4  # the last one joins when the cluster grows
TIMEOUT_S = 240


@dataclass(frozen=True)
class Line:
    """A command of a page, and the exit codes that it may have."""

    text: str
    codes: tuple[int, ...]


def lines_of(page: str) -> list[Line]:
    """The commands of a page: its indented lines, `# exit code N or M` behind those that do not end with 0."""
    found = []
    for line in (PAGES / page).read_text().splitlines():
        if not line.startswith("    "):
            continue
        text, _, comment = line.strip().partition("    # exit code ")
        found.append(Line(text, tuple(map(int, comment.split(" or "))) if comment else (0,)))
    return found


class Machine:
    """Units by name; `run` runs a command of a page."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._tools = directory / "bin"
        self._tools.mkdir(parents=True)
        odradek = self._tools / "odradek"
        odradek.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m broker "$@"\n')
        odradek.chmod(0o755)
        (directory / "backup").mkdir()
        self._zookeeper_port, *ports = free_ports(BROKERS + 1)
        self._zookeeper: EmbeddedZooKeeper | None = None
        settings = {
            **small_cluster_settings(3),
            **SETTINGS,
            "zookeeper.session.timeout.ms": "6000",
            "replica.lag.time.max.ms": "10000",
        }
        self.brokers = []
        for number, port in enumerate(ports):
            home = self._path(f"/var/lib/odradek/{number}")
            dirs = {"log.dirs": f"{home}/a,{home}/b"}
            connect = f"127.0.0.1:{self._zookeeper_port}"
            self.brokers.append(Broker("odradek", number, port, home, connect, {**settings, **dirs}))

    def _path(self, text: str) -> Path:
        return Path(self._placed(text))

    def _placed(self, text: str) -> str:
        return re.sub(r"(?<![\w/])/(var/lib|backup|etc)/", rf"{self.directory}/\1/", text)

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers[:3])

    def start(self) -> None:
        """ZooKeeper and three brokers, well."""
        self.systemctl("start", "zookeeper")
        for number in range(3):
            self.systemctl("start", f"odradek@{number}")
        self.run(Line("odradek cluster health --wait-ms 120000 --skew-warning 100", (0,)))

    def stop(self) -> None:
        for broker in self.brokers:
            if broker.process is not None and broker.process.is_running:
                broker.process.terminate()
        for broker in self.brokers:
            if broker.process is not None:
                broker.stop()
        self.systemctl("stop", "zookeeper")

    def systemctl(self, verb: str, unit: str) -> None:
        """`start`, `stop`, `restart` or `kill` a unit."""
        if unit == "zookeeper":
            if self._zookeeper is not None:
                self._zookeeper.stop()
                self._zookeeper = None
            if verb == "start":
                data = self._path("/var/lib/zookeeper")
                log = self.directory / "zookeeper.log"
                self._zookeeper = EmbeddedZooKeeper(data, self._zookeeper_port, log)
                self._zookeeper.wait_until_ready(CLOCK)
            return
        broker = self.brokers[int(unit.removeprefix("odradek@"))]
        if verb == "kill":
            broker.kill()
        elif verb in ("stop", "restart"):
            assert broker.stop() == 0, broker.log_tail()
        if verb in ("start", "restart"):
            broker.start()

    def run(self, line: Line) -> str:
        """What the command prints; fails with it for another exit code than those of the line."""
        if line.text.startswith("systemctl "):
            verb, *_, unit = line.text.split()[1:]
            self.systemctl(verb, unit)
            return ""
        environment = {
            **os.environ,
            **python_environment(),
            "PATH": f"{self._tools}{os.pathsep}{os.environ['PATH']}",
            "ODRADEK_BOOTSTRAP_SERVERS": self.bootstrap,
            "PYSPARK_PYTHON": sys.executable,
            # The disk of a machine that tests run on says nothing about the page.
            "ODRADEK_DISK_WARNING": "101",
            "ODRADEK_DISK_CRITICAL": "101",
        }
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", self._placed(line.text)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            cwd=self.directory,
            env=environment,
            check=False,
        )
        assert done.returncode in line.codes, f"{line.text}\n{done.stdout}\n{self._logs()}"
        assert "Traceback" not in done.stdout, f"{line.text}\n{done.stdout}"
        return done.stdout

    def _logs(self) -> str:
        return "\n".join(f"--- broker {broker.broker_id}\n{broker.log_tail(15)}" for broker in self.brokers)
