"""Quotas of clients as they are stored.

They lie below `/config/users`, `/config/users/U/clients`, `/config/clients` and `/config/ips`. An entity is a mapping
of entity types to names; the name None is the default entity of its type (`<default>` in a path). Other names are
percent-encoded there. Sources: KIP-13, KIP-257, KIP-546, KIP-612.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from controller.zk import paths

USER, CLIENT_ID, IP = "user", "client-id", "ip"

QUOTA_KEYS = frozenset(
    {
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
        "connection_creation_rate",
    }
)

Entity = Mapping[str, str | None]


class Configs(Protocol):
    """What is needed of ZooKeeper."""

    def config_entities(self, entity_type: str) -> list[str]: ...

    def config(self, entity_path: str) -> dict[str, str]: ...


class Match(NamedTuple):
    """What a filter asks of the name of one entity type."""

    name: str | None
    anything: bool = False

    def admits(self, name: str | None) -> bool:
        return self.anything or name == self.name


def read_quotas(zk: Configs, wanted: Mapping[str, Match], *, strict: bool) -> list[tuple[Entity, dict[str, float]]]:
    """Entities that have quotas and match in every type of `wanted`; with `strict` in no type more.

    Waits for ZooKeeper. Raises ValueError for a stored quota that is no number.
    """
    found = []
    for entity, path in _entities(zk, wanted):
        if strict and entity.keys() != wanted.keys():
            continue
        if not all(kind in entity and match.admits(entity[kind]) for kind, match in wanted.items()):
            continue
        values = {key: float(value) for key, value in zk.config(path).items() if key in QUOTA_KEYS}
        if values:
            found.append((entity, values))
    return found


def _entities(zk: Configs, wanted: Mapping[str, Match]) -> Iterator[tuple[Entity, str]]:
    """Every entity that has a config znode, with its path below `/config`; what cannot match is not listed."""
    users: Sequence[str] = [] if IP in wanted else zk.config_entities(paths.USER_CONFIG)
    for user in users:
        path = f"{paths.USER_CONFIG}/{user}"
        yield {USER: _name(user)}, path
        clients = f"{path}/{paths.CLIENT_CONFIG}"
        for client in zk.config_entities(clients):
            yield {USER: _name(user), CLIENT_ID: _name(client)}, f"{clients}/{client}"
    if IP not in wanted and USER not in wanted:
        for client in zk.config_entities(paths.CLIENT_CONFIG):
            yield {CLIENT_ID: _name(client)}, f"{paths.CLIENT_CONFIG}/{client}"
    if wanted.keys() <= {IP}:
        for ip in zk.config_entities(paths.IP_CONFIG):
            yield {IP: _name(ip)}, f"{paths.IP_CONFIG}/{ip}"


def _name(child: str) -> str | None:
    return None if child == paths.DEFAULT_ENTITY else paths.desanitize(child)
