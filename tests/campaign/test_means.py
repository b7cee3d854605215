"""What faults are made of does what it says: clocks that jump, links that are cut one way, disks that are full."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tests.campaign import clocks, isolation
from tests.campaign.schedule import Fault, Schedule
from tests.support.cluster import HOST, ROOT, Broker, python_environment

TELL = """
import sys, time
for _ in sys.stdin:
    before = time.monotonic()
    time.sleep(0.05)
    print(time.time(), time.monotonic() - before, time.monotonic(), flush=True)
"""


@pytest.mark.skipif(bool(clocks.missing()), reason=clocks.missing() or "clocks can jump")
def test_a_wall_clock_jumps_and_the_monotonic_one_does_not(tmp_path: Path) -> None:
    broker = Broker("odradek", 0, 0, tmp_path, "", {}, HOST)
    jumping = clocks.WallClocks(tmp_path, [broker])
    process = subprocess.Popen(
        [sys.executable, "-c", TELL],
        env={**os.environ, **broker.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def told() -> list[float]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        return [float(word) for word in process.stdout.readline().split()]

    try:
        first = told()
        jumping.set(broker, 1200)
        ahead = told()
        jumping.set(broker, -600)
        behind = told()
    finally:
        process.kill()
        process.communicate()
    assert 1190 < ahead[0] - first[0] < 1260
    assert -610 < behind[0] - first[0] < -540
    assert all(0.04 < each[1] < 10 for each in (first, ahead, behind))
    assert behind[2] - first[2] < 30


PROBE = """
import socket, subprocess, sys, types
from pathlib import Path
from tests.campaign.disks import SmallDisks
from tests.campaign.network import Network

SERVE = "import socket; s = socket.create_server(('10.77.0.10', 9999)); print(1, flush=True)\\n"
SERVE += "while True: s.accept()[0].close()"
ASK = "import socket; socket.create_connection(('10.77.0.10', 9999), 0.5)"
network = Network(3)
server = subprocess.Popen([*network.prefix(0), sys.executable, "-c", SERVE], stdout=subprocess.PIPE)
server.stdout.readline()

def reached():
    asking = [[sys.executable, "-c", ASK], [*network.prefix(1), sys.executable, "-c", ASK]]
    asking.append([*network.prefix(2), sys.executable, "-c", ASK])
    return "".join(str(int(subprocess.run(each, capture_output=True).returncode == 0)) for each in asking)

print(reached())
for rules in (network.rules("in", network.host(1)), network.rules("out"), network.rules("both", network.host(2), 9999)):
    network.drop(0, rules)
    print(reached())
    network.mend(0, rules)
network.slow(0, "both")
print(reached())
network.fast(0, "both")
print(reached())
server.kill()
network.close()
broker = types.SimpleNamespace(broker_id=0)
disks = SmallDisks(Path(sys.argv[1]), 1)
disks.fill(broker)
try:
    (disks.paths[0] / "more").write_bytes(b"x")
except OSError as error:
    print(error.errno)
disks.empty(broker)
print((disks.paths[0] / "more").write_bytes(b"x"))
disks.close()
"""


def test_links_and_disks(tmp_path: Path) -> None:
    """Of clients, broker 1 and broker 2: who reaches broker 0."""
    command, told = isolation.command([sys.executable, "-c", PROBE, str(tmp_path)])
    if command[0] == sys.executable:
        pytest.skip(f"no network of its own here: {told}")
    environment = {**os.environ, **python_environment()}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    # The third rule is for another port of the other side.
    assert done.stdout.split() == ["111", "101", "000", "111", "111", "111", "28", "1"], done.stderr
    assert not list(tmp_path.glob("small-*/more")), "the mount was seen by the campaign alone"


STARTER = """
import time
from tests.campaign import isolation
isolation.enter("starter")
try:
    print(isolation.missing(), flush=True)
    time.sleep(60)
finally:
    print("its brokers are stopped", flush=True)
"""


def test_without_a_network_of_its_own_it_ends_what_it_started_by_itself(tmp_path: Path) -> None:
    (tmp_path / "starter.py").write_text(STARTER)
    paths = os.pathsep.join((str(tmp_path), python_environment()["PYTHONPATH"]))
    environment = {**os.environ, "PYTHONPATH": paths, "PATH": str(tmp_path)}
    command = [sys.executable, "-m", "starter"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "unshare" in process.stdout.readline(), "it says why"
        process.terminate()
        assert process.stdout.read() == "its brokers are stopped\n"
    assert process.returncode == 143


def test_faults_go_on_when_what_they_wait_for_has_come() -> None:
    schedule, seen, ready = Schedule(), [], types.SimpleNamespace(now=False)

    def fault() -> Fault:
        seen.append("begun")
        yield lambda: ready.now
        seen.append("ready")
        yield 0.0
        seen.append("over")

    schedule.begin("fault", {("broker", 1)}, fault())
    schedule.step()
    assert (seen, schedule.taken) == (["begun"], {("broker", 1)})
    ready.now = True
    schedule.step()
    schedule.step()
    assert seen == ["begun", "ready", "over"]
    assert schedule.is_idle
