"""A pytest plugin for aiokafka's own suite: its broker is the one that PEER_BROKER names instead of a container.

It stands alone, as `tests` is aiokafka's package where it is loaded.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import types
from pathlib import Path
from types import SimpleNamespace

import pytest

_docker = types.ModuleType("docker")
# Its conftest names a type of that library.
_docker.models = SimpleNamespace(containers=SimpleNamespace(Container=object))  # type: ignore[attr-defined]
sys.modules.setdefault("docker", _docker)
_conftest = importlib.import_module("tests.conftest")
globals().update({name: value for name, value in vars(_conftest).items() if not name.startswith("_")})

HOST, _, PORT = os.environ["PEER_BROKER"].rpartition(":")


class Container:
    """What they run commands in: Kafka's tools, which here ask the broker instead of ZooKeeper."""

    def exec_run(self, command: str) -> tuple[int, bytes]:
        words = command.replace(f"/opt/kafka_{os.environ['PEER_VERSION']}/bin", os.environ["PEER_TOOLS"])
        for zookeeper in ("--authorizer-properties zookeeper.connect=localhost:2181", "--zookeeper localhost:2181"):
            words = words.replace(zookeeper, f"--bootstrap-server {HOST}:{PORT}")
        done = subprocess.run(words.split(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ssl: Tests that require SSL certificates to run")
    config.option.docker_image = f"kafka:{os.environ['PEER_VERSION']}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that ask a broker. Logins by GSSAPI need a KDC, which tests/contract has for other clients."""
    items[:] = [
        item for item in items if "kafka_server" in getattr(item, "fixturenames", ()) and "gssapi" not in item.name
    ]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Told at once, as the report at the end may be cut off by a bound of time."""
    if report.when == "call" or report.outcome != "passed":
        with Path(os.environ["PEER_REPORT"]).open("a") as file:
            file.write(json.dumps([report.nodeid, report.outcome]) + "\n")


@pytest.fixture(scope="session")
def docker() -> None:
    return None


@pytest.fixture(scope="session")
def kafka_image(request: pytest.FixtureRequest) -> str:
    return str(request.config.option.docker_image)


@pytest.fixture(scope="session")
def ssl_folder() -> Path:
    return Path(os.environ["PEER_KEYS"])


@pytest.fixture(scope="session")
def kafka_server() -> object:
    ports = [int(port) for port in os.environ["PEER_PORTS"].split()]
    return _conftest.KafkaServer(HOST, int(PORT), *ports, Container())


@pytest.fixture(scope="class")
def kerberos_utils() -> None:
    return None
