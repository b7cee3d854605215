"""The commands of the pages about ACLs, quotas, client telemetry, logging and ZooKeeper, run in order."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from tests.support.cluster import CLOCK, ROOT, Cluster, python_environment, running_cluster
from tests.support.dev_command import Command

DOCS = ROOT / "docs"
PAGES = ["security/acls.md", "security/quotas.md", "client-telemetry.md", "logging.md"]
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "odradek.client.telemetry.enable": "true",
}


@pytest.fixture(scope="module")
def cluster(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    name = "reference-pages"
    with running_cluster(["odradek"], tmp_path_factory.mktemp(name), f"{zookeeper}/{name}", SETTINGS) as cluster:
        yield cluster


def commands_of(page: Path) -> list[str]:
    lines = re.findall(r"^    (odradek .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert lines
    return lines


@pytest.mark.parametrize("page", PAGES)
def test_commands(cluster: Cluster, page: str, tmp_path: Path) -> None:
    lines = commands_of(DOCS / page)
    environment = {**os.environ, **python_environment(), "ODRADEK_BOOTSTRAP_SERVERS": cluster.bootstrap}
    tool = f'odradek() {{ "{sys.executable}" -m broker "$@"; }}\n'
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", tool + line],
            input="y\n",  # some ask
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
            env=environment,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)


def test_zookeeper_of_one_node(tmp_path: Path) -> None:
    """Each line of the page, on a free port; then the README's two for a broker by itself."""
    for line in commands_of(DOCS / "zookeeper.md"):
        words = shlex.split(line, comments=True)[1:]
        port = free_ports(1)[0] if "2181" in words else 0
        server = started(tmp_path, [str(port) if word == "2181" else word for word in words])
        told = server.lines[0].removeprefix("ready: zookeeper.connect=127.0.0.1:")
        assert int(told) == port if port else int(told) > 0
        assert server.end(signal.SIGTERM) == 0


def started(directory: Path, words: list[str]) -> Command:
    made = Command(directory, *(str(directory / word) if word == "zk" else word for word in words))

    def ready() -> bool:
        assert made.process.poll() is None, made.errors.read_text()
        return "ready: zookeeper.connect=" in made.output.read_text()

    assert wait_until(ready, CLOCK, 60_000)
    return made
