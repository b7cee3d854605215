"""Where a process of ours finds its packages.

They have plain names (`log`, `timer`, `broker`), and a user may have modules of the same names in the working
directory or on PYTHONPATH. In processes of ours ours come first; the standard library still comes before them.
"""

from __future__ import annotations

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The program that a child process runs: `python -P MAIN server ...`
MAIN = os.path.join(ROOT, "odradek", "__main__.py")


def put_ours_first() -> None:
    """Order `sys.path`: the standard library, the folder of our packages, then what else was there."""
    entries = list(sys.path)
    if not sys.flags.safe_path and entries and not _is_standard(entries[0]):
        del entries[0]  # the folder of the script, or the working directory
    standard = [entry for entry in entries if _is_standard(entry)]
    rest = [entry for entry in entries if entry and not _is_standard(entry) and entry != ROOT]
    sys.path[:] = [*standard, ROOT, *rest]


def _is_standard(entry: str) -> bool:
    library = os.path.dirname(os.__file__)
    version = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return entry in (library, os.path.join(library, "lib-dynload")) or os.path.basename(entry) == version
