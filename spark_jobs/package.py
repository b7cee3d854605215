"""What Spark's processes are given: the zip for ``--py-files``, with the packages that executors need and nothing else,
and a script that is their Python and takes PySpark from where it is installed.

Spark puts its zip of PySpark first on their path, and nothing that is compiled from a zip is kept: each process that
it starts for a step of planning, and the parent of its workers, spends 0.5 s of CPU on imports. From the folder it is
0.1 s.
"""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import shutil
import tempfile
import zipfile
from pathlib import Path

PACKAGES = ("log", "network", "spark_jobs", "timer")
MODULES = ("pyspark_odradek.py", "pyspark_odradek_segments.py")
# The same content gives the same zip.
_DATE = (1980, 1, 1, 0, 0, 0)
# Spark's two zips go from the path, on which Spark may put them twice; what users have put there stays.
_SCRIPT = """#!/bin/sh
set -f
IFS=:
kept=
for place in $PYTHONPATH; do
    case $place in
        */pyspark.zip | */py4j-*-src.zip) ;;
        *) kept=$kept${{kept:+:}}$place ;;
    esac
done
unset IFS
PYTHONPATH=$kept
export PYTHONPATH
exec {python} "$@"
"""


def build_zip(target: Path) -> int:
    """Write the zip and return how many files are in it."""
    root = Path(__file__).resolve().parents[1]
    files = sorted(
        path for name in PACKAGES for path in (root / name).rglob("*") if path.is_file() and path.suffix != ".pyc"
    )
    files = [path for path in files if "__pycache__" not in path.parts]
    files += [root / name for name in MODULES]
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.writestr(
                zipfile.ZipInfo(str(path.relative_to(root)), _DATE), path.read_bytes(), zipfile.ZIP_DEFLATED
            )
    return len(files)


def write_script(script: Path, python: str) -> None:
    """Make the script; `python` is what it runs, which must have Spark's own version of PySpark. Raises OSError."""
    script.write_text(_SCRIPT.format(python=shlex.quote(python)))
    script.chmod(0o755)


@functools.cache
def python_with_folder(python: str) -> str:
    """The path of a script for as long as this process lives; `python` itself where temporary files are not run."""
    directory = Path(tempfile.mkdtemp(prefix="odradek-python-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    script = directory / "python"
    write_script(script, python)
    # False on a file system that is mounted with noexec, too.
    return str(script) if os.access(script, os.X_OK) else python
