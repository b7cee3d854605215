"""The script that starts a Python without Spark's zips before it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.cli.spark import command
from spark_jobs.package import python_with_folder

ZIPS = "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9.9-src.zip:"


def test_the_zips_go_from_the_path_and_the_rest_stays(tmp_path: Path) -> None:
    script = tmp_path / "python"
    assert CliRunner().invoke(command, ["python", str(script)]).exit_code == 0
    tell = [str(script), "-c", "import os, sys; print(sys.executable, os.environ['PYTHONPATH'])"]
    for path in (f"{ZIPS}/spark/jars/core.jar:/mi ne", f"{ZIPS}/core.jar:{ZIPS}/core.jar", "/mine/*:/others"):
        done = subprocess.run(tell, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == f"{sys.executable} {path.replace(ZIPS, '')}"


def test_where_temporary_files_are_not_run_python_is_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a machine whose /tmp is mounted with noexec."""
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(tmp_path))
    assert python_with_folder.__wrapped__(sys.executable) == str(tmp_path / "python")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.X_OK)
    assert python_with_folder.__wrapped__(sys.executable) == sys.executable
