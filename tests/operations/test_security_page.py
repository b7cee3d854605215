"""The steps of docs/security.md that begin with nothing: TLS, and users who log in by SCRAM.

Files, properties and commands are those of the page, but for addresses and directories.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.dev.cluster import small_cluster_settings
from broker.dev.processes import free_ports
from log.files.properties_text import parse_properties
from network.client.connection import Connection
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.tls.client import tls_wrapper
from network.tls.settings import read_settings
from tests.support.cluster import CLOCK, HOST, ROOT, Broker, python_environment

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def blocks(section: str) -> list[tuple[str, str]]:
    """(language, text) of each block of a section."""
    text = PAGE.partition(f"\n### {section}\n")[2].partition("\n### ")[0]
    found = re.findall(r"^   ```(\w*)\n(.*?)^   ```", text, re.DOTALL | re.MULTILINE)
    assert found
    return [(language, re.sub("^   ", "", inside, flags=re.MULTILINE)) for language, inside in found]


class Machine:
    """Where 10.0.0.1 is this one, and `/etc/odradek` a directory of the test."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        self.directory = directory
        self.zookeeper = zookeeper
        self.internal, self.clients = free_ports(2)

    def placed(self, text: str) -> str:
        for name, address in (
            ("10.0.0.1:9093", f"{HOST}:{self.internal}"),
            ("10.0.0.1:9092", f"{HOST}:{self.clients}"),
            ("IP:10.0.0.1", f"IP:{HOST}"),
            ("/etc/odradek", str(self.directory)),
        ):
            text = text.replace(name, address)
        return text

    def bash(self, text: str, said: str = "") -> str:
        """What the commands print; without a terminal, so that what is asked for is read from `said`."""
        tool = f'odradek() {{ "{sys.executable}" -m broker "$@"; }}\n'
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", tool + self.placed(text)],
            input=said,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=self.directory,
            env={**os.environ, **python_environment()},
            start_new_session=True,
        )
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def broker(self, properties: str) -> Iterator[None]:
        """One with the properties of the page."""
        settings = parse_properties(self.placed(properties))
        broker = Broker(
            "odradek", 1, self.clients, self.directory / "broker", self.zookeeper, small_cluster_settings(1)
        )
        broker.settings |= settings
        broker.start()
        try:
            broker.wait_listening()
            yield
        finally:
            broker.stop()


def test_from_nothing_to_tls(zookeeper: str, tmp_path: Path) -> None:
    (_, commands), (_, server), _, (_, client) = blocks("From nothing to TLS")
    machine = Machine(tmp_path, f"{zookeeper}/tls-page")
    machine.bash(commands)
    (tmp_path / "client.properties").write_text(client)
    with machine.broker(server):
        told = machine.bash("odradek topics list --bootstrap-server 10.0.0.1:9092 --command-config client.properties")
        assert "Traceback" not in told
        values = {**parse_properties(client), "ssl.truststore.location": str(tmp_path / "ca.pem")}
        context = read_settings(values.get).client_context()
        with Connection(HOST, machine.clients, "page", CLOCK, wrap=tls_wrapper(lambda: context)) as connection:
            assert connection.call(ApiVersionsRequest(), 0).error_code == 0


def test_from_nothing_to_scram(zookeeper: str, tmp_path: Path) -> None:
    (_, server), (_, client), (_, commands), _ = blocks("From nothing to SCRAM")
    machine = Machine(tmp_path, f"{zookeeper}/scram-page")
    (tmp_path / "client.properties").write_text(client)
    set_alice, list_users, delete_alice = commands.splitlines()
    options = set_alice.partition("alice")[2]
    with machine.broker(server):
        machine.bash(set_alice, "a password\n" * 2)
        assert "alice" in machine.bash(list_users)
        machine.bash(delete_alice.replace(" ...", options))
        assert "alice" not in machine.bash(list_users)
