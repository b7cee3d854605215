"""The script that starts a Python without Spark's zips before it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from broker.cli.spark import command

ZIPS = "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9.9-src.zip:"


def test_the_zips_go_from_the_path_and_the_rest_stays(tmp_path: Path) -> None:
    script = tmp_path / "python"
    assert CliRunner().invoke(command, ["python", str(script)]).exit_code == 0
    tell = [str(script), "-c", "import os, sys; print(sys.executable, os.environ['PYTHONPATH'])"]
    for path in (f"{ZIPS}/spark/jars/core.jar:/mi ne", f"{ZIPS}/core.jar:{ZIPS}/core.jar", "/mine/*:/others"):
        done = subprocess.run(tell, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == f"{sys.executable} {path.replace(ZIPS, '')}"
