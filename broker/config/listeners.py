"""Listener names and endpoints."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from broker.config.keys import ConfigError

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS_PROTOCOLS = ("SSL", "SASL_SSL")
_ENDPOINT = re.compile(r"^(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)$")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`NAME://host:port` with the security protocol that the name maps to. An empty host means all interfaces."""

    listener_name: str
    security_protocol: str
    host: str
    port: int

    def with_address(self, host: str, port: int) -> Endpoint:
        return Endpoint(self.listener_name, self.security_protocol, host, port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it, as far as that can be told without a resolver."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    @property
    def warning(self) -> str | None:
        """What an operator has to know of an endpoint on which others can read along."""
        if self.security_protocol in TLS_PROTOCOLS or self.is_loopback:
            return None
        lacking = "encryption or authentication" if self.security_protocol == "PLAINTEXT" else "encryption"
        return f"listeners: {self} is reachable from other machines without {lacking} ({self.security_protocol})"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """`listener.security.protocol.map`: upper-cased listener names to protocols."""
    mapping: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = item.rpartition(":")
        if not colon or not name:
            raise ConfigError(f"listener.security.protocol.map has an entry without a protocol: {item!r}")
        if protocol.upper() not in SECURITY_PROTOCOLS:
            raise ConfigError(f"Error creating broker listeners: No security protocol {protocol}")
        if name.upper() in mapping:
            raise ConfigError(f"listener.security.protocol.map names {name.upper()} twice")
        mapping[name.upper()] = protocol.upper()
    return mapping


def parse_endpoints(key: str, text: str, protocol_map: dict[str, str], *, unique_ports: bool) -> list[Endpoint]:
    """The endpoints of `listeners` or `advertised.listeners` in order. Raises `ConfigError`."""
    endpoints: list[Endpoint] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        match = _ENDPOINT.match(item)
        if match is None:
            raise ConfigError(f"Unable to parse a listener of {key}: {item!r}")
        name, host, port = match[1].upper(), match[2], int(match[3])
        if name not in protocol_map:
            raise ConfigError(f"No security protocol defined for listener {name} of {key}")
        if not -1 <= port <= 65535:
            raise ConfigError(f"{key} has an impossible port: {item!r}")
        endpoints.append(Endpoint(name, protocol_map[name], host, port))
    names = [endpoint.listener_name for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ConfigError(f"Each listener must have a different name, {key}: {text}")
    if unique_ports:
        _check_ports(key, text, endpoints)
    return endpoints


def _check_ports(key: str, text: str, endpoints: list[Endpoint]) -> None:
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.port != 0:
            by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in by_port.items():
        families = sorted(":" in endpoint.host for endpoint in sharing)
        # One IPv4 and one IPv6 address may share a port; nothing else may.
        if len(sharing) > 1 and not (families == [False, True] and all(endpoint.host for endpoint in sharing)):
            raise ConfigError(f"Each listener must have a different port ({port} is used twice), {key}: {text}")
