"""One object in the place of many equal ones, where thousands of partitions say the same."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar, cast

T = TypeVar("T")

_REMEMBERED = 4096
"""A topic over N brokers has few different assignments, and they are asked for together."""


def shared(value: T) -> T:
    """An object that equals `value`, and is of its type: the one that was given before, unless that was long ago.

    For values that are hashable, so that nobody changes them. Replicas and in-sync sets, and what is made of these,
    differ in as many ways as there are sets of brokers; held once for each partition they are hundreds of bytes of it.
    """
    return cast(T, _first_of(value))


@lru_cache(maxsize=_REMEMBERED, typed=True)
def _first_of(value: object) -> object:
    return value
