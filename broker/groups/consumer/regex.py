"""Regular expressions of subscriptions, in RE2's syntax and with its bound.

A client chooses the expression and the coordinator evaluates it, so matching must take linear time: Python's own
engine can be kept busy for hours by a short pattern. Kafka uses RE2/J, so patterns mean the same here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import re2

from network.protocol.errors import ApiError, ErrorCode

MAX_CHARS = 4_096
"""A longer expression is refused; topic names have at most 249 characters."""
_PROGRAM_BYTES = 1 << 20


@lru_cache(maxsize=1_000)
def _compiled(regex: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PROGRAM_BYTES
    return re2.compile(regex, options=options)


def check(regex: str) -> None:
    """Raises ApiError(INVALID_REGULAR_EXPRESSION) for what RE2 does not take."""
    if len(regex) > MAX_CHARS:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"the pattern is longer than {MAX_CHARS} characters")
    try:
        _compiled(regex)
    except re2.error as error:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{regex!r} is no regular expression: {error}") from None


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the expression matches as a whole. Raises ApiError as `check` does."""
    check(regex)
    fullmatch = _compiled(regex).fullmatch
    return frozenset(name for name in names if fullmatch(name) is not None)
