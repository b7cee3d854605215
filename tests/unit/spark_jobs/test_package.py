"""The zip for executors, and the check that our packages are ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.package import build_zip


def python(code: str, *path: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path[:0] = {[str(p) for p in path]!r}\n{code}"
    return subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_zip_is_enough_to_read(tmp_path: Path) -> None:
    target = tmp_path / "odradek.zip"
    assert build_zip(target) > 50
    code = (
        "import pyspark_odradek, spark_jobs.segments, spark_jobs.sink, spark_jobs.stream\n"
        "from spark_jobs.guard import check_packages\ncheck_packages()\nimport log, spark_jobs\n"
        "print(log.__file__); print(spark_jobs.__file__)"
    )
    done = python(code, target, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(line.startswith(str(target)) for line in done.stdout.splitlines())
    first = target.read_bytes()
    build_zip(target)
    assert target.read_bytes() == first


@pytest.mark.parametrize("name", ["log", "timer", "network"])
def test_a_shadowing_file_is_named(tmp_path: Path, name: str) -> None:
    root = Path(__file__).resolve().parents[3]
    (tmp_path / f"{name}.py").write_text("")
    code = "from spark_jobs.guard import check_packages\ncheck_packages()"
    done = python(code, tmp_path, root, cwd=tmp_path)
    assert done.returncode != 0
    assert f"{tmp_path / name}.py shadows the package {name} of odradek" in done.stderr
