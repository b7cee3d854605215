"""What can have configuration, as ``odradek configs`` names it: the options that choose entities.

Kafka's own two ways: `--entity-type topics --entity-name T`, and the short `--topic T`. A user and a client id
together are one entity, with quotas of its own; every other entity stands alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from broker.cli.errors import CommandError
from broker.config.admin import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    TOPIC_RESOURCE,
)
from broker.config.view import Source

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of entity. One with a `resource` has configs of that resource type; one without has quotas."""

    name: str
    singular: str
    resource: int = 0
    source: Source | None = None
    quota_type: str = ""
    has_default: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        Kind("topics", "topic", TOPIC_RESOURCE, Source.TOPIC),
        Kind("brokers", "broker", BROKER_RESOURCE, Source.DYNAMIC_BROKER, has_default=True),
        Kind("broker-loggers", "broker-logger", LOGGER_RESOURCE, Source.LOGGER),
        Kind("groups", "group", GROUP_RESOURCE, Source.GROUP),
        Kind("client-metrics", "client-metrics", CLIENT_METRICS_RESOURCE, Source.CLIENT_METRICS),
        Kind("users", "user", quota_type="user", has_default=True),
        Kind("clients", "client", quota_type="client-id", has_default=True),
        Kind("ips", "ip", quota_type="ip", has_default=True),
    )
}


@dataclass(frozen=True, slots=True)
class Part:
    """One entity of a kind; the name is "" for the default one, None for all of them."""

    kind: Kind
    name: str | None

    def __str__(self) -> str:
        if self.name is None:
            return f"all {self.kind.name}"
        return f"{self.kind.singular} {self.name}" if self.name else f"the default of {self.kind.name}"


@dataclass(frozen=True, slots=True)
class Entity:
    """What the options chose: one part, or a user and a client id."""

    parts: tuple[Part, ...]

    @property
    def kind(self) -> Kind:
        return self.parts[0].kind

    @property
    def name(self) -> str | None:
        return self.parts[0].name

    @property
    def has_quotas(self) -> bool:
        return bool(self.kind.quota_type)

    @property
    def is_one(self) -> bool:
        """Whether every part is named, or a default."""
        return all(part.name is not None for part in self.parts)

    def __str__(self) -> str:
        return ", ".join(map(str, self.parts))


def entity_options(function: F) -> F:
    """The options that choose an entity; `chosen` reads them."""
    options = [
        click.option(
            "--entity-type", "types", multiple=True, type=click.Choice(list(KINDS)), help="Twice: users and clients."
        ),
        click.option("--entity-name", "names", multiple=True, help="Its name; a broker's is its id."),
        click.option(
            "--entity-default", "default", is_flag=True, help="The default of brokers, users, clients or ips."
        ),
    ]
    for kind in KINDS.values():
        options.append(click.option(f"--{kind.singular}", help=f"Short for --entity-type {kind.name} --entity-name."))
        if kind.has_default:
            text = f"Short for --entity-type {kind.name} --entity-default."
            options.append(click.option(f"--{kind.singular}-defaults", is_flag=True, help=text))
    for option in reversed(options):
        function = option(function)
    return function


def chosen(choice: dict[str, Any]) -> Entity:
    """The entity of the options. Raises CommandError."""
    types, names, default = choice["types"], choice["names"], choice["default"]
    parts = []
    if types:
        parts = _long(list(types), list(names), default)
    elif names or default:
        raise CommandError("--entity-name and --entity-default need --entity-type", exit_code=2)
    for kind in KINDS.values():
        key = kind.singular.replace("-", "_")
        if choice.get(key) is not None:
            parts.append(Part(kind, _not_empty(choice[key])))
        if choice.get(f"{key}_defaults"):
            parts.append(Part(kind, ""))
    if not parts:
        raise CommandError(f"give --entity-type, one of {', '.join(KINDS)}, or its short form", exit_code=2)
    if len(parts) > 1:
        kinds = sorted(part.kind.name for part in parts)
        if kinds != ["clients", "users"]:
            raise CommandError("only one user and one client can be given together", exit_code=2)
        parts.sort(key=lambda part: part.kind.name, reverse=True)
    return Entity(tuple(parts))


def _long(types: list[str], names: list[str], default: bool) -> list[Part]:
    if default and names:
        raise CommandError(
            "--entity-default and --entity-name together leave open which is which; use --user, --client, "
            "--user-defaults and --client-defaults",
            exit_code=2,
        )
    if names and len(names) != len(types):
        raise CommandError(f"{len(types)} --entity-type and {len(names)} --entity-name do not pair", exit_code=2)
    for kind in types:
        if default and not KINDS[kind].has_default:
            raise CommandError(f"{kind} have no default entity", exit_code=2)
    found = ["" if default else None] * len(types) if not names else [_not_empty(name) for name in names]
    return [Part(KINDS[kind], name) for kind, name in zip(types, found, strict=True)]


def _not_empty(name: str) -> str:
    if not name:
        raise CommandError("the name of an entity is empty; its default is chosen with --entity-default", exit_code=2)
    return name
