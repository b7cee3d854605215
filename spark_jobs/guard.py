"""Our packages have plain names; a user's own ``log.py`` beside a job would be imported instead of them.

``spark_jobs`` checks this as it is imported, before anything else of ours, so the failure names the file instead of an
odd ModuleNotFoundError. ``broker`` and ``controller`` need no check: nothing here imports them, and a user's own files
of those names are left alone.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path


class ShadowedPackageError(ImportError):
    """A module of the user's has the name of one of our packages, or a package of ours is not there."""


# The packages that spark_jobs imports, with a module that only ours has.
SIGNS = {"timer": "purgatory.py", "network": "version.py", "log": "partition_log.py"}


def check_packages() -> None:
    """Raise ShadowedPackageError, naming the file, unless ``log``, ``timer`` and ``network`` are ours.

    Nothing of the user's is run for that.
    """
    for name, sign in SIGNS.items():
        try:
            found = importlib.util.find_spec(name)
        except ValueError:  # it has been imported and has no spec
            raise _shadowed(name, str(getattr(sys.modules[name], "__file__", name))) from None
        if found is None:
            raise ShadowedPackageError(
                f"package {name} is missing: install odradek, or pass the zip of `odradek spark package` by --py-files"
            )
        places = list(found.submodule_search_locations or ())
        if not any(_is_ours(name, place, sign) for place in places):
            raise _shadowed(name, found.origin or ", ".join(places))


def _is_ours(name: str, place: str, sign: str) -> bool:
    """Beside this package (in a zip nothing can be looked at), or a folder with the module that tells it."""
    return Path(place) == Path(__file__).parents[1] / name or os.path.isfile(os.path.join(place, sign))


def _shadowed(name: str, place: str) -> ShadowedPackageError:
    return ShadowedPackageError(
        f"{place} shadows the package {name} of odradek: rename that file, or move it out of the directory that the "
        "job starts in"
    )
