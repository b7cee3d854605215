"""Rules for topic names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from network.protocol.errors import ApiError, ErrorCode

MAX_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(topic: str) -> None:
    """Raise `ApiError` INVALID_TOPIC_EXCEPTION unless the name is legal."""
    if not topic:
        problem = "the empty string is not allowed"
    elif topic in (".", ".."):
        problem = "'.' or '..' is not allowed"
    elif len(topic) > MAX_LENGTH:
        problem = f"the length of '{topic}' is longer than the max allowed length {MAX_LENGTH}"
    elif not _LEGAL.fullmatch(topic):
        problem = f"'{topic}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


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
