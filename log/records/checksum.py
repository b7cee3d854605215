"""CRC-32C of bytes, by the package crc32c.

Only its extension is loaded: the package's own `__init__` reads its version from the installed metadata, for which the
standard library loads its mail parser. That is a tenth of what a broker imports at its start.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec


def _load() -> Callable[..., int]:
    package = find_spec("crc32c")
    if package is not None and package.submodule_search_locations:
        spec = PathFinder.find_spec("_crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            extension = module_from_spec(spec)
            spec.loader.exec_module(extension)
            found: Callable[..., int] = extension.crc32c
            return found
    # Another release may be cut otherwise.
    from crc32c import crc32c

    return crc32c


# crc32c(data, value=0): `value` is the checksum of what came before.
crc32c = _load()
