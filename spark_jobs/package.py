"""The zip for ``--py-files``: the packages that executors need, and nothing else."""

from __future__ import annotations

import zipfile
from pathlib import Path

PACKAGES = ("log", "network", "spark_jobs", "timer")
MODULES = ("pyspark_odradek.py", "pyspark_odradek_segments.py")
# The same content gives the same zip.
_DATE = (1980, 1, 1, 0, 0, 0)


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
