"""The configuration of one broker: the properties file, overrides, dynamic values, and typed access to all of it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.config.broker_keys import BROKER_KEYS, SYNONYMS
from broker.config.cross_checks import check_values, synonym_ms
from broker.config.honoured import OWN_LISTENER_KEYS, check_honoured, plain_name
from broker.config.keys import ConfigError, UpdateMode, parse_value
from broker.config.listeners import Endpoint, parse_endpoints, parse_protocol_map
from broker.config.versions import MetadataVersion
from log.files.properties_text import parse_properties


class KafkaConfig:
    """Typed values of every broker key.

    `originals` are the static properties as given (unknown keys are kept: plug-ins may want them). Dynamic values are
    laid over them by `use_dynamic`; the typed values are replaced as one dictionary, so readers need no lock.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Parse and check. Raises `ConfigError` with the key and the reason."""
        self.originals: dict[str, str] = _with_both_ids(properties)
        for name, text in self.originals.items():
            key = BROKER_KEYS.get(name)
            if key is not None and key.mode is UpdateMode.DYNAMIC_ONLY:
                raise ConfigError(f"{name} can only be set dynamically")
            check_honoured(name, text)
        self._values = _parse_all(self.originals)
        self.dynamic_broker: dict[str, str] = {}
        self.dynamic_default: dict[str, str] = {}
        self.version = MetadataVersion(self["inter.broker.protocol.version"])
        self.resolve_listeners()
        if not self.listeners:
            raise ConfigError("At least one listener must be set")
        self.log_dirs: list[str] = self._log_dirs()
        check_values(self._values)

    @classmethod
    def from_file(cls, path: str | Path | None, overrides: Mapping[str, str] | None = None) -> KafkaConfig:
        """Read `server.properties`; `overrides` (from `--override key=value`) win over it."""
        return cls(read_properties(path, overrides))

    def __getitem__(self, name: str) -> Any:
        """The typed value of `name`; `KeyError` for a name that is no broker key."""
        return self._values[name]

    def get_int(self, name: str) -> int:
        value = self._values[name]
        if value is None:
            raise ConfigError(f"{name} is not set")
        return int(value)

    def get_bool(self, name: str) -> bool:
        return bool(self._values[name])

    def get_float(self, name: str) -> float:
        return float(self._values[name])

    def get_str(self, name: str) -> str:
        value = self._values[name]
        if value is None:
            raise ConfigError(f"{name} is not set")
        return str(value)

    def get_optional_str(self, name: str) -> str | None:
        value = self._values[name]
        return None if value is None else str(value)

    def synonym_ms(self, name: str) -> int | None:
        """The value in milliseconds of a family such as `log.retention.ms`/`.minutes`/`.hours`: the first one set."""
        return synonym_ms(self._values, name)

    def own_of_listener(self, name: str) -> int | None:
        """The number that `listener.name.<listener>.<key>` sets, dynamically or in the file; None if nothing does."""
        for level in (self.dynamic_broker, self.dynamic_default, self.originals):
            if name in level:
                return int(parse_value(BROKER_KEYS[plain_name(name)], level[name]))
        return None

    def of_listener(self, name: str) -> int:
        """The same, or the value that the key has for all listeners."""
        own = self.own_of_listener(name)
        return self.get_int(plain_name(name)) if own is None else own

    @property
    def broker_id(self) -> int:
        return self.get_int("broker.id")

    def set_broker_id(self, broker_id: int) -> None:
        """Take over an id that ZooKeeper generated or `meta.properties` held."""
        self._values = {**self._values, "broker.id": broker_id, "node.id": broker_id}

    @property
    def rack(self) -> str | None:
        return self.get_optional_str("broker.rack")

    def use_dynamic(self, broker: Mapping[str, str], default: Mapping[str, str]) -> dict[str, tuple[Any, Any]]:
        """Lay dynamic values over the file's: `broker` wins over `default` wins over the file.

        Returns what changed, as name to (old, new), with the keys of single listeners under their full names. Raises
        `ConfigError` and changes nothing if a value is invalid or cannot be honoured.
        """
        for level in (default, broker):
            for name, text in level.items():
                check_honoured(name, text)
        values = self.merged(broker, default)
        changed = {name: (self._values[name], value) for name, value in values.items() if self._values[name] != value}
        named = {
            name
            for level in (self.dynamic_broker, self.dynamic_default, broker, default)
            for name in level
            if plain_name(name) != name and plain_name(name) in OWN_LISTENER_KEYS
        }
        old = {name: self.of_listener(name) for name in named}
        self.dynamic_broker, self.dynamic_default = dict(broker), dict(default)
        self._values = values
        changed.update({name: (old[name], new) for name in named if (new := self.of_listener(name)) != old[name]})
        return changed

    def merged(self, broker: Mapping[str, str], default: Mapping[str, str]) -> dict[str, Any]:
        """All typed values under these dynamic ones. Raises `ConfigError`.

        Setting one of a family of synonyms hides the whole family of the lower levels.
        """
        texts = dict(self.originals)
        for level in (default, broker):
            for name in level:
                for family in SYNONYMS.values():
                    names = [member for member, _ in family]
                    if name in names:
                        for member in names:
                            if member not in level:
                                texts.pop(member, None)
            texts.update(level)
        values = _parse_all(texts)
        # Before the id of this run is put in: one that ZooKeeper generated is above what a file may have.
        check_values(values)
        values["broker.id"] = self._values["broker.id"]
        values["node.id"] = self._values["node.id"]
        return values

    def advertised_endpoints(self, bound_ports: Mapping[str, int]) -> list[Endpoint]:
        """What clients are told of the listeners that have a port: port 0 is the bound port, an empty host is this
        machine's name."""
        advertised = []
        for endpoint in (each for each in self.advertised_listeners if each.listener_name in bound_ports):
            port = endpoint.port or bound_ports[endpoint.listener_name]
            advertised.append(endpoint.with_address(endpoint.host or socket.getfqdn(), port))
        return advertised

    def with_listeners(self, named: Mapping[str, str]) -> KafkaConfig:
        """The file's configuration with other keys of listeners. Raises `ConfigError` for listeners that cannot be."""
        new = KafkaConfig({**self.originals, **named})
        new.set_broker_id(self.broker_id)
        return new

    def resolve_listeners(self) -> None:
        """What follows from the keys of listeners. A broker asks once more when it has read the dynamic values, before
        it binds its sockets. Raises `ConfigError`."""
        self.protocol_map = parse_protocol_map(self["listener.security.protocol.map"])
        self.listeners: list[Endpoint] = parse_endpoints(
            "listeners", self["listeners"], self.protocol_map, unique_ports=True
        )
        self.advertised_listeners: list[Endpoint] = self._advertised()
        self.inter_broker_listener_name = self._inter_broker_listener()
        self.control_plane_listener_name: str | None = self._control_plane_listener()

    def _advertised(self) -> list[Endpoint]:
        text = self["advertised.listeners"]
        if text is None:
            return list(self.listeners)
        endpoints = parse_endpoints("advertised.listeners", text, self.protocol_map, unique_ports=False)
        known = {endpoint.listener_name for endpoint in self.listeners}
        for endpoint in endpoints:
            if endpoint.host == "0.0.0.0":
                raise ConfigError("advertised.listeners cannot use the nonroutable meta-address 0.0.0.0")
            if endpoint.listener_name not in known:
                raise ConfigError(f"advertised.listeners names {endpoint.listener_name}, which is not in listeners")
        return endpoints

    def _inter_broker_listener(self) -> str:
        name = self.get_optional_str("inter.broker.listener.name")
        protocol_given = "security.inter.broker.protocol" in self.originals
        if name is not None and protocol_given:
            raise ConfigError("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set")
        listener = name.upper() if name is not None else self.get_str("security.inter.broker.protocol")
        if listener not in {endpoint.listener_name for endpoint in self.advertised_listeners}:
            raise ConfigError(f"inter.broker.listener.name {listener} must be one of the advertised listeners")
        return listener

    def _control_plane_listener(self) -> str | None:
        name = self.get_optional_str("control.plane.listener.name")
        if name is None:
            return None
        listener = name.upper()
        if listener not in {endpoint.listener_name for endpoint in self.advertised_listeners}:
            raise ConfigError(f"control.plane.listener.name {listener} must be one of the advertised listeners")
        if listener == self.inter_broker_listener_name:
            raise ConfigError("control.plane.listener.name must differ from the inter-broker listener")
        return listener

    def _log_dirs(self) -> list[str]:
        text = self["log.dirs"] if self["log.dirs"] is not None else self["log.dir"]
        directories = [item.strip() for item in text.split(",") if item.strip()]
        if not directories:
            raise ConfigError("At least one log directory must be defined via log.dirs or log.dir")
        if len(set(directories)) != len(directories):
            raise ConfigError(f"log.dirs names a directory twice: {text}")
        return directories


def read_properties(path: str | Path | None, overrides: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a file, as texts; `overrides` win. Raises `ConfigError`."""
    try:
        properties = parse_properties(Path(path).read_text(encoding="utf-8")) if path else {}
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text in UTF-8: {error}") from None
    return {**properties, **(overrides or {})}


def _parse_all(properties: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, key in BROKER_KEYS.items():
        values[name] = parse_value(key, properties.get(name, key.default))
    return values


def _with_both_ids(properties: Mapping[str, str]) -> dict[str, str]:
    """`broker.id` and `node.id` are one key under two names: who is given one has the other too."""
    both = dict(properties)
    for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if name in both:
            both.setdefault(other, both[name])
    return both
