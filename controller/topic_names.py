"""Which topic names are legal, and which collide."""

from __future__ import annotations

import re
from collections.abc import Iterable

from network.protocol.errors import ApiError, ErrorCode

MAX_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_fault(name: str) -> str | None:
    """What is wrong with a topic name, `None` if nothing is."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_topic_name(topic: str) -> None:
    """Raise `ApiError` INVALID_TOPIC_EXCEPTION unless the name is legal."""
    fault = topic_name_fault(topic)
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")


def check_collision(topic: str, existing: Iterable[str]) -> None:
    """Raise if another topic has the same metric name: there `.` and `_` are the same character."""
    if "." not in topic and "_" not in topic:
        return
    unified = topic.replace(".", "_")
    colliding = sorted(name for name in existing if name.replace(".", "_") == unified)
    if colliding:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{topic}' collides with existing topics: {', '.join(colliding)}",
        )
