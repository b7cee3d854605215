"""Our packages have plain names; a user's own ``log.py`` beside a job would be imported instead of them.

Driver and executors check this before anything else, so the failure names the file instead of an odd AttributeError.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path


class ShadowedPackageError(ImportError):
    """A module of the user's has the name of one of our packages."""


# A module that only our package of that name has.
_SIGNS = {"timer": "purgatory", "network": "protocol", "log": "batch"}


def check_packages() -> None:
    """Raise ShadowedPackageError, naming the file, unless ``log``, ``timer`` and ``network`` are ours."""
    for name, sign in _SIGNS.items():
        found = importlib.util.find_spec(name)
        if found is None:
            raise ShadowedPackageError(
                f"package {name} is missing: install odradek, or pass the zip of `odradek spark package` by --py-files"
            )
        if found.submodule_search_locations is None or importlib.util.find_spec(f"{name}.{sign}") is None:
            place = found.origin or ", ".join(map(str, map(Path, found.submodule_search_locations or ())))
            raise ShadowedPackageError(
                f"{place} shadows the package {name} of odradek: rename that file, or move it out of the "
                "directory that the job starts in"
            )
