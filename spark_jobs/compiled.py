"""Compilation of the hot loops with numba, or not at all: without numba the same code runs as plain Python.

Compiled code is cached on disk, so only the first process of a machine pays for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

try:
    from numba import njit as _njit

    COMPILED = True

    def compiled(function: F) -> F:
        """Compile at the first call."""
        return cast(F, _njit(cache=True, nogil=True, boundscheck=False)(function))
except ImportError:  # pragma: no cover - exercised by the tests that hide numba
    COMPILED = False

    def compiled(function: F) -> F:
        """Leave the function as it is."""
        return function


def as_buffer(data: Any) -> Any:
    """Bytes as the loops index them: a numpy view when compiled, else ``bytes`` (plain ints, no numpy scalars)."""
    return np.frombuffer(data, dtype=np.uint8) if COMPILED else bytes(data)


def new_buffer(size: int) -> Any:
    """Writable bytes for the loops, not cleared when compiled."""
    return np.empty(size, dtype=np.uint8) if COMPILED else bytearray(size)
