"""The commands of the pages about quotas, client telemetry and logging, run in order on a broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import ROOT, Cluster, python_environment, running_cluster

DOCS = ROOT / "docs"
PAGES = ["security/quotas.md", "client-telemetry.md", "logging.md"]
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


@pytest.mark.parametrize("page", PAGES)
def test_commands(cluster: Cluster, page: str, tmp_path: Path) -> None:
    lines = re.findall(r"^    (odradek .*)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert lines
    environment = {**os.environ, **python_environment(), "ODRADEK_BOOTSTRAP_SERVERS": cluster.bootstrap}
    tool = f'odradek() {{ "{sys.executable}" -m broker "$@"; }}\n'
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", tool + line],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
            env=environment,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
