"""What a configuration key is: its type, default, rule, and when it may change."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from log.java_values import double_text, parse_double, parse_integer, trim

Rule = Callable[[str, Any], None]


class ConfigError(ValueError):
    """A configuration that cannot be used; the text names the key and what is wrong."""


class ForbiddenConfigError(ConfigError):
    """The key cannot be set at all, or not together with another, whatever its value."""


class ConfigType(IntEnum):
    """Value types with the codes DescribeConfigs gives them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(IntEnum):
    """Where a key may be set."""

    READ_ONLY = 0  # only in the properties file
    PER_BROKER = 1  # dynamically, for one broker
    CLUSTER_WIDE = 2  # dynamically, for one broker or for all
    DYNAMIC_ONLY = 3  # never in the file


class Importance(IntEnum):
    LOW = 0
    MEDIUM = 1
    HIGH = 2


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One row of a table of keys. `default` is the text a properties file would hold, `None` for "not set"."""

    name: str
    type: ConfigType
    default: str | None
    importance: Importance
    mode: UpdateMode = UpdateMode.READ_ONLY
    rule: Rule | None = None
    internal: bool = False
    broker_key: str | None = None
    """For a topic key: the broker key that supplies its default."""

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD


_COMMA = re.compile(r"\s*,\s*", re.ASCII)
_REPLICA = re.compile(r"\d+:\d+", re.ASCII)
_RANGES = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), 2**31 - 1),
    ConfigType.LONG: (-(2**63), 2**63 - 1),
}


def parse_value(key: ConfigKey, text: str | None) -> Any:
    """The typed value of `text`, after the key's rule. Raises `ConfigError`."""
    value = _parse(key, text)
    if key.rule is not None and (value is not None or text is not None):
        key.rule(key.name, value)
    return value


def _parse(key: ConfigKey, text: str | None) -> Any:
    if text is None:
        return None
    trimmed = trim(text)
    kind = key.type
    if kind is ConfigType.BOOLEAN:
        if trimmed.lower() in ("true", "false"):
            return trimmed.lower() == "true"
        raise invalid(key.name, text, "Expected value to be either true or false")
    if kind in _RANGES:
        low, high = _RANGES[kind]
        try:
            number = parse_integer(trimmed)
        except ValueError:
            raise invalid(key.name, text, f"Not a number of type {kind.name}") from None
        if not low <= number <= high:
            raise invalid(key.name, text, f"Not a number of type {kind.name}")
        return number
    if kind is ConfigType.DOUBLE:
        try:
            return parse_double(trimmed)
        except ValueError:
            raise invalid(key.name, text, "Not a number of type DOUBLE") from None
    if kind is ConfigType.LIST:
        return _COMMA.split(trimmed) if trimmed else []
    if kind is ConfigType.CLASS and not trimmed:
        raise invalid(key.name, text, f"Class {text} could not be found.")
    return trimmed


def to_text(value: Any, kind: ConfigType) -> str:
    """A typed value as DescribeConfigs shows it."""
    if value is None:
        return ""
    if kind is ConfigType.BOOLEAN:
        return "true" if value else "false"
    if kind is ConfigType.LIST:
        return ",".join(value)
    if kind is ConfigType.DOUBLE:
        return double_text(float(value))
    if kind is ConfigType.PASSWORD:
        return "[hidden]"
    return str(value)


def shown(key: ConfigKey, text: str) -> str:
    """A stored value as it is understood; as it is stored where it is not (an older broker may have taken it)."""
    try:
        return to_text(parse_value(key, text), key.type)
    except ConfigError:
        return text


def invalid(name: str, value: object, reason: str) -> ConfigError:
    """`value` as typed, or as parsed."""
    text = double_text(value) if isinstance(value, float) else value
    return ConfigError(f"Invalid value {text} for configuration {name}: {reason}")


def at_least(minimum: float) -> Rule:
    def check(name: str, value: Any) -> None:
        if value is not None and value < minimum:
            raise invalid(name, value, f"Value must be at least {minimum}")

    return check


def between(minimum: float, maximum: float) -> Rule:
    def check(name: str, value: Any) -> None:
        if value is not None and (value < minimum or value > maximum):  # not a number is within
            bound = f"at least {minimum}" if value < minimum else f"no more than {maximum}"
            raise invalid(name, value, f"Value must be {bound}")

    return check


def or_value(exception: int, rule: Rule) -> Rule:
    def check(name: str, value: Any) -> None:
        if value != exception:
            rule(name, value)

    return check


def between_or_value(exception: int, minimum: int, maximum: int) -> Rule:
    """Like `or_value` and `between`, with the text that Kafka has for it."""

    def check(name: str, value: Any) -> None:
        if value != exception and not minimum <= value <= maximum:
            raise invalid(name, value, f"Value must be between {minimum} and {maximum} or equal to {exception}")

    return check


def one_of(*allowed: str) -> Rule:
    def check(name: str, value: Any) -> None:
        if value not in allowed:
            raise invalid(name, value, f"String must be one of: {', '.join(allowed)}")

    return check


def one_of_ignoring_case(*allowed: str) -> Rule:
    def check(name: str, value: Any) -> None:
        if value is None or value.upper() not in allowed:
            raise invalid(name, value, f"String must be one of (case insensitive): {', '.join(allowed)}")

    return check


def each_of(*allowed: str) -> Rule:
    def check(name: str, value: Any) -> None:
        for item in value or ():
            if item not in allowed:
                raise invalid(name, item, f"String must be one of: {', '.join(allowed)}")

    return check


def non_empty(name: str, value: Any) -> None:
    if value is not None and not value:
        raise invalid(name, value, "String must be non-empty")


def throttled_replicas(name: str, value: Any) -> None:
    """`*`, nothing, or `partition:broker` pairs."""
    items: list[str] = value or []
    if items != ["*"] and not all(_REPLICA.fullmatch(item) for item in items):
        reason = (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
        raise invalid(name, f"[{', '.join(items)}]", reason)
