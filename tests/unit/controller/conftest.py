"""One real ZooKeeper for all tests of this folder; each test gets a chroot of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.zk.client import ZkClient
from controller.zk.kazoo_session import KazooSession

_chroots = itertools.count()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _classpath() -> str:
    folder = os.environ.get("ODRADEK_ZOOKEEPER_LIBS")
    if folder is None:
        pyspark = pytest.importorskip("pyspark", reason="the ZooKeeper server comes from pyspark's jars")
        folder = str(Path(pyspark.__file__).parent / "jars")
    names = ("zookeeper", "slf4j-api", "log4j", "metrics-core", "netty", "snappy-java")
    jars = [str(jar) for jar in Path(folder).glob("*.jar") if jar.name.startswith(names)]
    return ":".join(jars)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a fresh ZooKeeper server."""
    if shutil.which("java") is None:
        pytest.skip("no Java on this machine")
    folder = tmp_path_factory.mktemp("zookeeper")
    port = _free_port()
    config = folder / "zoo.cfg"
    config.write_text(
        f"dataDir={folder}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=200\nmaxClientCnxns=0\n"
        "admin.enableServer=false\n4lw.commands.whitelist=*\nforceSync=no\n"
    )
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", _classpath(),
                "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config),
            ],
            stdout=log,
            stderr=log,
        )  # fmt: skip
    try:
        _wait_for(port, process, folder / "server.log")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(200):
        if process.poll() is not None:
            break
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as connection:
                connection.sendall(b"ruok")
                if connection.recv(4) == b"imok":
                    return
        except OSError:
            pass
        time.sleep(0.05)
    pytest.fail(f"ZooKeeper did not start: {log.read_text()[-2000:]}")


@pytest.fixture
def connect(zookeeper: str) -> str:
    """A connect string with a chroot that no other test uses."""
    return f"{zookeeper}/t{next(_chroots)}"


@pytest.fixture
def make_client(connect: str) -> Iterator[Callable[..., ZkClient]]:
    """Make clients, each with a session of its own, on the chroot of this test; closed at its end."""
    clients: list[ZkClient] = []

    def make(**options: object) -> ZkClient:
        options.setdefault("session_timeout_ms", 6000)
        session = KazooSession(connect, **options)  # type: ignore[arg-type]
        session.start()
        client = ZkClient(session)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def zk(make_client: Callable[..., ZkClient]) -> ZkClient:
    return make_client()
