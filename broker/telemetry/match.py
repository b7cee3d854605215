"""Which clients a subscription to client metrics is for: a regular expression for each of some attributes of a client.

Expressions are RE2's, as those of consumer groups are: clients choose what is matched, so it must take linear time.
Kafka takes Java's, which have references back and looks around beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from broker.config.keys import ConfigError
from broker.linear_regex import LinearRegexError, NoLinearRegexError, compiled

ATTRIBUTES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
Match = Mapping[str, Any]
"""Compiled expressions by attribute."""


class MatchError(ConfigError):
    """What a subscription's `match` may not be."""


def parse_match(items: Iterable[str]) -> Match:
    """From items such as `client_id=app-.*`; the last of an attribute counts. Raises `MatchError`."""
    found = {}
    for item in items:
        name, _, expression = (part.strip() for part in item.partition("="))
        if not expression or "=" in expression or name not in ATTRIBUTES:
            raise MatchError(f"Illegal client matching pattern: {item}")
        try:
            found[name] = compiled(expression)
        except NoLinearRegexError as error:
            raise MatchError(f"{error} ({item})") from None
        except LinearRegexError:
            raise MatchError(f"Illegal client matching pattern: {item}") from None
    return found


def matches(match: Match, attributes: Mapping[str, str]) -> bool:
    """Whether every expression matches all of its attribute."""
    return all(pattern.fullmatch(attributes[name]) is not None for name, pattern in match.items())
