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
from broker.dev.processes import free_ports, is_listening
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


def test_one_broker_by_itself(tmp_path: Path) -> None:
    """The README's two lines for it, on other ports."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme.partition("One broker by itself")[2].partition("\n\n")[2].partition("\n\n")[0]
    first, second = (shlex.split(line.rstrip(" &"))[1:] for line in block.splitlines())
    port, zookeeper_port = free_ports(2)
    properties = {
        "broker.id": "0",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
    }
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    zookeeper = started(tmp_path, [*first, "--port", str(zookeeper_port)])
    try:
        places = {"server.properties": str(file), "log.dirs=data": f"log.dirs={tmp_path / 'data'}"}
        (tmp_path / "broker").mkdir()
        broker = Command(tmp_path / "broker", *(places.get(word, word) for word in second))
        try:
            assert wait_until(lambda: is_listening("127.0.0.1", port), CLOCK, 60_000), broker.errors.read_text()
        finally:
            assert broker.end(signal.SIGTERM) == 0
    finally:
        zookeeper.end(signal.SIGTERM)
    assert (tmp_path / "data" / "meta.properties").exists()


def test_zookeeper_of_one_node(tmp_path: Path) -> None:
    """Each line of the page, on a free port."""
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
