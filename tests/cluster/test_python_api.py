"""`odradek.Cluster` from the program of somebody who has modules of the same names as ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.dev.polling import wait_until
from odradek import Cluster, ClusterError
from tests.support.cluster import CLOCK, ROOT

SHADOWS = ("log.py", "timer.py", "network.py", "controller.py", "broker/__init__.py", "spark_jobs/__init__.py")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory of somebody's, with modules that must not be imported by ours."""
    directory = tmp_path / "project"
    for name in SHADOWS:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("OURS = False\nimport os\nif os.path.basename(__import__('sys').argv[0]) != 'use.py': 1 / 0\n")
    return directory


def run_program(project: Path, source: str, **environment: str) -> subprocess.Popen[str]:
    """A program of that directory; its path holds the directory twice, as a script's and as PYTHONPATH's."""
    (project / "use.py").write_text(source)
    path = os.pathsep.join([str(project), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "use.py"],
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(project), **environment},
    )


def processes_of(directory: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"TMPDIR={directory}".encode() in text:
                found.append(text.split(b"\0\0")[0].replace(b"\0", b" ").decode())
    return found


USE = """
import sys
import log, timer, broker
assert not (log.OURS or timer.OURS or broker.OURS)
from odradek import Cluster

with Cluster(config={"num.partitions": 4, "auto.create.topics.enable": False}) as cluster:
    cluster.create_topic("orders", partitions=2, config={"retention.ms": 1000})
    import confluent_kafka
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("orders", b"one")
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    print(consumer.consume(1, timeout=30)[0].value().decode())
    print(consumer.list_topics().topics["orders"].partitions.keys())
    consumer.close()
    assert "broker 0 is running" in cluster.logs(0)
    cluster.delete_topic("orders")
print(sorted(name for name in sys.modules if name.split(".")[0] in ("network", "controller", "kazoo", "click")))
"""


def test_a_program_with_modules_of_the_same_names(project: Path) -> None:
    pytest.importorskip("confluent_kafka")
    with run_program(project, USE) as process:
        assert process.communicate(timeout=150)[0] == "one\ndict_keys([0, 1])\n[]\n"
    assert process.returncode == 0
    assert processes_of(project) == []
    assert sorted(path.name for path in project.iterdir() if path.name.startswith("odradek")) == []


def test_the_command_beside_modules_of_the_same_names(project: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "odradek", "topics", "--help"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(project), str(ROOT)])},
    )
    assert shown.stdout.startswith("Usage: odradek topics")


HOLD = """
import sys
from odradek import Cluster
cluster = Cluster(brokers=2)
{before}
cluster.start()
print(cluster.bootstrap_servers, flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("method", ["kernel", "pipe"])
def test_a_killed_program_leaves_nothing(project: Path, method: str) -> None:
    with run_program(project, HOLD.format(before=""), ODRADEK_PARENT_WATCH=method) as process:
        assert process.stdout is not None
        assert process.stdout.readline().count(":") == 2
        assert len(processes_of(project)) >= 4
        process.kill()
    assert wait_until(lambda: not processes_of(project), CLOCK, 20_000), processes_of(project)
    assert not list(project.glob("odradek-*"))


def test_a_program_killed_while_its_cluster_starts_leaves_nothing(project: Path) -> None:
    with run_program(project, HOLD.format(before="print('now', flush=True)")) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert wait_until(lambda: len(processes_of(project)) > 1, CLOCK, 20_000, 2)
        process.kill()
    assert wait_until(lambda: not processes_of(project), CLOCK, 40_000), processes_of(project)


def test_a_killed_supervisor_leaves_nothing_and_is_told_of(project: Path) -> None:
    source = HOLD.format(before="") + "print(open(f'/proc/{cluster._process.address.pid}/cmdline').read())"
    source = source.replace("sys.stdin.readline()", "import os, signal\nos.kill(cluster._process.address.pid, 9)")
    source = source[: source.rindex("print(")] + (
        "from odradek import ClusterError\n"
        "try:\n    cluster.create_topic('x')\nexcept ClusterError as error:\n    print('told', flush=True)\n"
        "cluster.stop()\n"
    )
    with run_program(project, source) as process:
        output = process.communicate(timeout=100)[0]
    assert output.endswith("told\n")
    assert wait_until(lambda: not processes_of(project), CLOCK, 20_000), processes_of(project)


ASYNC = """
import asyncio
from odradek import Cluster

async def main():
    async with Cluster() as cluster:
        print(cluster.bootstrap_servers.count(":"), cluster.zookeeper_connect.count(":"))

asyncio.run(main())
"""


def test_an_async_program(project: Path) -> None:
    with run_program(project, ASYNC) as process:
        assert process.communicate(timeout=100)[0] == "1 1\n"
    assert processes_of(project) == []


def test_brokers_are_killed_paused_and_started_again() -> None:
    with Cluster(brokers=3, config={"zookeeper.session.timeout.ms": 2000}) as cluster:
        assert cluster.running() == [0, 1, 2]
        cluster.create_topic("t", partitions=3, replication_factor=3)
        cluster.kill(1)
        assert cluster.running() == [0, 2]
        cluster.restart(1)
        assert cluster.running() == [0, 1, 2]
        # A broker serves before it says so.
        assert wait_until(lambda: cluster.logs(1).count("broker 1 is running") == 2, CLOCK, 20_000)
        cluster.pause(2)
        assert cluster.running() == [0, 1, 2]
        cluster.resume(2)
        cluster.restart(2)
        assert "stopping" in cluster.logs(2)
        with pytest.raises(ClusterError, match="already exists"):
            cluster.create_topic("t")
        with pytest.raises(ClusterError, match="there is no broker 3"):
            cluster.kill(3)
    with pytest.raises(ClusterError, match="does not run"):
        cluster.create_topic("t")


def test_data_is_kept_where_it_shall_be(tmp_path: Path) -> None:
    for _ in range(2):
        with Cluster(data_dir=tmp_path / "data") as cluster:
            assert cluster.directory == tmp_path / "data"
            if _ == 0:
                cluster.create_topic("kept")
            else:
                cluster.delete_topic("kept")
    assert (tmp_path / "data" / "broker-0" / "data").is_dir()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"config": {"num.io.threads": "many"}}, "num.io.threads"),
        ({"zookeeper": "127.0.0.1:1", "config": {"zookeeper.connection.timeout.ms": 500}}, "ZooKeeper"),
        ({"log_level": "LOUD"}, "LOUD"),
    ],
)
def test_a_cluster_that_cannot_start_says_why(arguments: dict[str, object], reason: str) -> None:
    with pytest.raises(ClusterError, match=reason):
        Cluster(**arguments).start()  # type: ignore[arg-type]


def test_a_process_of_many_threads_may_start_it() -> None:
    """The parent-death signal of Linux belongs to a thread; the supervisor's owner may be any, and may end."""
    import threading

    cluster = Cluster()
    thread = threading.Thread(target=cluster.start)
    thread.start()
    thread.join(100)
    try:
        cluster.create_topic("after")
    finally:
        cluster.stop()
