"""Three ZooKeeper servers: one lost is not noticed, two lost stop what needs the controller, and one back is enough."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.dev import parent
from broker.dev.processes import ManagedProcess, free_ports
from broker.dev.zookeeper import is_serving, java_command
from tests.operations.machine import PAGES
from tests.support.cluster import HOST, Cluster, running_cluster
from tests.support.commands import Done, eventually, run
from tests.support.zookeeper import zookeeper_client

PAGE = " ".join((PAGES / "lost-zookeeper.md").read_text().split())


class Ensemble:
    """Three real servers, each a small JVM."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        ports = free_ports(9)
        self.ports, quorum, election = ports[:3], ports[3:6], ports[6:]
        self._members = "".join(f"server.{number}={HOST}:{quorum[number]}:{election[number]}\n" for number in range(3))
        self._running: dict[int, ManagedProcess] = {}

    @property
    def connect(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    def start(self, number: int) -> None:
        home = self._directory / f"zookeeper-{number}"
        command = java_command(home, self.ports[number], HOST)
        (home / "data").mkdir(exist_ok=True)
        (home / "data" / "myid").write_text(f"{number}\n")
        with Path(command[-1]).open("a", encoding="utf-8") as file:
            file.write(f"initLimit=10\nsyncLimit=5\n{self._members}")
        tied = [sys.executable, "-I", "-S", str(Path(parent.__file__).resolve())]
        self._running[number] = ManagedProcess(f"zookeeper-{number}", [*tied, *command], home / "log", tied=True)

    def kill(self, number: int) -> None:
        self._running.pop(number).kill()

    def serves(self, number: int) -> bool:
        """Whether the server is one of a quorum."""
        return is_serving(HOST, self.ports[number])

    def stop(self) -> None:
        for process in self._running.values():
            process.kill()


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    made = Ensemble(tmp_path_factory.mktemp("quorum"))
    try:
        for number in range(3):
            made.start(number)
        eventually(lambda: all(made.serves(number) for number in range(3)))
        yield made
    finally:
        made.stop()


def odradek(cluster: Cluster, line: str, code: int = 0, stdin: bytes = b"") -> Done:
    """A command that the page names, with the exit code that it says."""
    assert f"`odradek {line}`" in PAGE, line
    done = run(*line.split(), "-b", cluster.bootstrap, stdin=stdin)
    assert done.code == code, done
    assert done.err.count("\n") <= 1, done
    return done


def registrations(ensemble: Ensemble) -> list[int]:
    """When each broker registered; another number after a session that ended."""
    with zookeeper_client(ensemble.connect) as client:
        return [client.get(f"/brokers/ids/{number}")[1].czxid for number in (0, 1)]


def test_a_quorum_is_lost_and_comes_back(ensemble: Ensemble, tmp_path: Path) -> None:
    settings = {"zookeeper.session.timeout.ms": "6000", "default.replication.factor": "2"}
    with running_cluster(["odradek"] * 2, tmp_path, ensemble.connect, settings) as cluster:
        odradek(cluster, "topics create orders")
        cluster.wait_topic("orders", 1)
        before = registrations(ensemble)

        ensemble.kill(0)  # one of three: nothing happens, whichever it was
        odradek(cluster, "produce orders", stdin=b"one away\n")
        odradek(cluster, "topics create others")
        cluster.wait_topic("others", 1)
        assert registrations(ensemble) == before

        ensemble.kill(1)  # two of three: no quorum
        eventually(lambda: not ensemble.serves(2))
        odradek(cluster, "produce orders", stdin=b"two away\n")
        odradek(cluster, "get-offsets --topic orders")
        records = odradek(cluster, "consume orders --from-beginning --max 2").out.splitlines()
        assert records == ["one away", "two away"]
        refused = odradek(cluster, "topics create late --request-timeout-ms 5000", code=1)
        assert refused.err.startswith("odradek: "), refused
        assert all(broker.process is not None and broker.process.is_running for broker in cluster.brokers)

        ensemble.start(0)  # two of three are a quorum again
        eventually(lambda: ensemble.serves(0) and ensemble.serves(2))
        odradek(cluster, "cluster health --wait-ms 120000 --skew-warning 100 --disk-warning 101 --disk-critical 101")
        eventually(lambda: run("topics", "create", "after", "-b", cluster.bootstrap).code == 0)
        cluster.wait_topic("after", 1)
        odradek(cluster, "produce orders", stdin=b"all well\n")
        everything = run("consume", "orders", "--from-beginning", "--max", "3", "-b", cluster.bootstrap)
        assert everything.out.splitlines() == ["one away", "two away", "all well"]
