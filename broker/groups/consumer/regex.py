"""Regular expressions of subscriptions: `broker.linear_regex`, and Kafka's answers.

Kafka uses RE2/J, so patterns mean the same here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from broker.linear_regex import LinearRegexError, compiled
from network.protocol.errors import ApiError, ErrorCode


@lru_cache(maxsize=1_000)
def _compiled(regex: str) -> Any:
    return compiled(regex)


def check(regex: str) -> None:
    """Raises ApiError(INVALID_REGULAR_EXPRESSION) for what RE2 does not take."""
    try:
        _compiled(regex)
    except LinearRegexError as error:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the expression matches as a whole. Raises ApiError as `check` does."""
    check(regex)
    fullmatch = _compiled(regex).fullmatch
    return frozenset(name for name in names if fullmatch(name) is not None)
