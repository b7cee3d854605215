"""The README's tour does what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.dev.polling import wait_until
from tests.cluster.test_pytest_plugin import run_pytest
from tests.support.cluster import CLOCK, ROOT, Cluster, python_environment


def programs() -> list[str]:
    """Of the README, in order: a cluster in a program, a test, the tour."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_a_cluster_in_a_program(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    environment = {**os.environ, **python_environment()}
    subprocess.run([sys.executable, "-c", programs()[0]], timeout=150, check=True, cwd=tmp_path, env=environment)


def test_a_fixture_in_a_test(tmp_path: Path) -> None:
    assert "1 passed" in run_pytest(tmp_path, "from confluent_kafka import Producer\n" + programs()[1])


def test_the_tour(make_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    cluster = make_cluster(["odradek"] * 3)
    readme = (ROOT / "README.md").read_text()
    program = programs()[-1]
    environment = {
        **os.environ,
        **python_environment(),
        "ODRADEK_BOOTSTRAP_SERVER": cluster.bootstrap,
        # The disk of a machine that tests run on says nothing about the page.
        "ODRADEK_DISK_WARNING": "101",
        "ODRADEK_DISK_CRITICAL": "101",
    }
    shown = subprocess.run(
        [sys.executable, "-c", program.replace("127.0.0.1:9092", cluster.bootstrap)],
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
        cwd=ROOT,
        env=environment,
    )
    assert sorted(line.split(" ", 2)[2] for line in shown.stdout.splitlines()) == ["hello 0", "hello 1", "hello 2"]
    output = shell(readme.partition("From the shell:\n")[2].partition("kcat,")[0], environment)
    assert "Created topic orders." in output
    assert "alice\t3 apples" in output
    assert "bob\ta pear" in output
    assert "PartitionCount: 6" in output
    assert "tour" in output
    # What operators have; the broker that is drained is one of four, on docs/operations/growing-and-shrinking.md.
    block = readme.partition("Operators have what they know")[2].partition("The same cluster in containers")[0]
    operators = re.sub(r"^    odradek brokers decommission 3 .*\n", "", block, flags=re.MULTILINE)
    assert operators != block
    before, verify, after = re.split(r"^(    odradek reassign verify .*\n)", operators, flags=re.MULTILINE)
    shell(before.replace("plan.json", str(tmp_path / "plan.json")), environment)
    again = verify.replace("plan.json", str(tmp_path / "plan.json"))
    assert wait_until(lambda: not run(again, environment).returncode, CLOCK, 60_000)
    shell(after, environment)


def shell(text: str, environment: dict[str, str]) -> str:
    """What the indented lines print, one after the other."""
    output = ""
    for line in text.split("\n"):
        if line.startswith("    "):
            done = run(line, environment)
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            output += done.stdout
    return output


def run(line: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    odradek = f"{shlex.quote(sys.executable)} -m broker"
    # What is made shows on every broker a moment later.
    command = re.sub(r"(^|\| )odradek ", lambda match: f"{match[1]}{odradek} ", line.strip())
    return subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT, env=environment
    )
