"""The beginner's pages do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from odradek import Cluster
from tests.cluster.test_pytest_plugin import run_pytest
from tests.support.cluster import ROOT, python_environment

START = ROOT / "docs" / "start"
ADDRESS = "127.0.0.1:9092"


def blocks(page: str, language: str) -> list[str]:
    """Code of a page."""
    return re.findall(rf"```{language}\n(.*?)```", (START / page).read_text(encoding="utf-8"), re.DOTALL)


def run(words: list[str], directory: Path, shell_line: str = "", **variables: str) -> str:
    """What a program prints, or a line of a shell in which `odradek` is ours."""
    environment = {**os.environ, **python_environment(), "PYSPARK_PYTHON": sys.executable, **variables}
    tool = f'odradek() {{ "{sys.executable}" -m broker "$@"; }}; '
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", tool + shell_line] if shell_line else words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
        cwd=directory,
        env=environment,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_python(tmp_path: Path) -> None:
    [program] = blocks("python.md", "python")
    shown = run([sys.executable, "-c", program], tmp_path)
    assert "9 orders, all of them after a broker was lost" in shown


def test_pytest(tmp_path: Path) -> None:
    [source] = blocks("pytest.md", "python")
    assert "3 passed" in run_pytest(tmp_path, source)


def test_spark(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    [program] = blocks("spark.md", "python")
    commands = blocks("spark.md", "sh")[1]
    with Cluster(brokers=3, data_dir=tmp_path / "data") as cluster:
        variables = {"ODRADEK_BOOTSTRAP_SERVERS": cluster.bootstrap_servers}
        for line in commands.splitlines():
            run([], tmp_path, line, **variables)
        (tmp_path / "count.py").write_text(program.replace(ADDRESS, cluster.bootstrap_servers))
        shown = run([sys.executable, "count.py"], tmp_path)
        assert sum(map(int, re.findall(r"^\|\s*\d+\|\s*(\d+)\|", shown, re.MULTILINE))) == 1000, shown
