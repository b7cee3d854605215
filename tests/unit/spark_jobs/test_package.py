"""The zip for executors, and the check that our packages are ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.guard import SIGNS
from spark_jobs.package import build_zip
from tests.support.paths import ROOT


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


ENTRIES = ["source", "batch", "stream", "sink", "segments", "tasks", "options", "jobs.archive", "lag"]
CHECK = """
import importlib
for name in {entries}:
    try:
        importlib.import_module("spark_jobs." + name)
    except ImportError as error:
        print(error)
    else:
        print("imported", name)
import pyspark_odradek
import pyspark_odradek_segments
assert pyspark_odradek.DefaultSource.name() == "odradek"
assert pyspark_odradek_segments.DefaultSource.name() == "odradek-segments"
for found in (pyspark_odradek, pyspark_odradek_segments):
    try:
        found.DefaultSource({{}})
    except ImportError as error:
        print(error)
"""


@pytest.mark.parametrize("name", ["log", "timer", "network"])
@pytest.mark.parametrize("kind", ["file", "folder", "loaded"])
def test_a_shadowing_file_is_named_by_whatever_is_imported_first(tmp_path: Path, name: str, kind: str) -> None:
    root = Path(__file__).resolve().parents[3]
    if kind == "folder":
        (tmp_path / name).mkdir()
        theirs = tmp_path / name / "__init__.py"
    else:
        theirs = tmp_path / f"{name}.py"
    theirs.write_text("print('mine has been run')")
    before = f"import {name}\n" if kind == "loaded" else ""
    done = python(before + CHECK.format(entries=ENTRIES), tmp_path, root, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # Nothing of the user's is run by looking.
    assert lines.count("mine has been run") == (kind == "loaded")
    said = [line for line in lines if line.startswith(f"{theirs} shadows the package {name} of odradek")]
    assert len(said) == len(ENTRIES) + 2, lines


@pytest.mark.parametrize("name", ["broker", "controller"])
def test_names_that_the_source_does_not_need_are_left_to_the_user(tmp_path: Path, name: str) -> None:
    root = Path(__file__).resolve().parents[3]
    (tmp_path / f"{name}.py").write_text("MINE = True")
    code = f"import {', '.join('spark_jobs.' + entry for entry in ENTRIES)}, {name}\nassert {name}.MINE"
    done = python(code, tmp_path, root, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    (tmp_path / "spark_jobs").symlink_to(root / "spark_jobs")
    (tmp_path / "timer").symlink_to(root / "timer")
    code = f"sys.path[:] = [p for p in sys.path if p != {str(root)!r}]\nimport spark_jobs"
    isolated = [sys.executable, "-S", "-P", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{code}"]
    done = subprocess.run(isolated, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "package network is missing" in done.stderr


def test_the_modules_that_tell_our_packages_are_there() -> None:
    for package, module in SIGNS.items():
        assert (ROOT / package / module).is_file()
