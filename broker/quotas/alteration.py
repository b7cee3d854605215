"""What AlterClientQuotas does: the checks, and the write, entity by entity (KIP-546, KIP-612)."""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from broker.security.client_quotas import CLIENT_ID, IP, USER
from controller.zk import paths
from network.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from network.protocol.messages.alter_client_quotas import EntityData, OpData

_EPSILON: Final = 1e-6
_OF_CLIENTS: Final = {
    "producer_byte_rate": "Long",
    "consumer_byte_rate": "Long",
    "request_percentage": "Double",
    "controller_mutation_rate": "Double",
}
_OF_ADDRESSES: Final = {"connection_creation_rate": "Int"}


class Configs(Protocol):
    """What is needed of ZooKeeper."""

    def config(self, entity_path: str) -> dict[str, str]: ...


class Writer(Protocol):
    """What is needed to write."""

    def change_configs(self, entity_path: str, config: Mapping[str, str]) -> None: ...


def alter(
    zk: Configs, writer: Writer, entity: Sequence[EntityData], changes: Sequence[OpData], *, validate_only: bool
) -> None:
    """Change the quotas of one entity. Waits for ZooKeeper. Raises `ApiError`."""
    path, keys = _entity(entity)
    config = zk.config(path)
    for change in changes:
        kind = keys.get(change.key)
        if kind is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {change.key}")
        if change.remove:
            config.pop(change.key, None)
        else:
            config[change.key] = _text(change.key, kind, change.value)
    if not validate_only:
        if float(config.get("connection_creation_rate", 0)) < 0:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        writer.change_configs(path, config)


def _entity(entity: Sequence[EntityData]) -> tuple[str, Mapping[str, str]]:
    """The path below `/config`, and the keys that such an entity may have, with the type of each."""
    if not entity:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    names: dict[str, str] = {}
    for part in entity:
        kind, name = part.entity_type, part.entity_name
        if kind not in (USER, CLIENT_ID, IP):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
        names[kind] = paths.DEFAULT_ENTITY if name is None else paths.sanitize(name)
    if IP not in names:
        return _client_path(names), _OF_CLIENTS
    if len(names) > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId",
        )
    if names[IP] != paths.DEFAULT_ENTITY and not _is_host(names[IP]):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{names[IP]} is not a valid IP or resolvable host.")
    return f"{paths.IP_CONFIG}/{names[IP]}", _OF_ADDRESSES


def _client_path(names: Mapping[str, str]) -> str:
    if USER not in names:
        return f"{paths.CLIENT_CONFIG}/{names[CLIENT_ID]}"
    user = f"{paths.USER_CONFIG}/{names[USER]}"
    return f"{user}/{paths.CLIENT_CONFIG}/{names[CLIENT_ID]}" if CLIENT_ID in names else user


def _is_host(name: str) -> bool:
    """Whether it is an address, or a name that has one."""
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True


def _text(key: str, kind: str, value: float) -> str:
    """As Kafka stores it: whole numbers without a fraction. Raises `ApiError`."""
    if kind == "Double":
        return _java_double(value)
    try:
        whole = int(value + _EPSILON)
    except (OverflowError, ValueError):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Configuration {key} must be a {kind} value") from None
    if abs(whole - value) > _EPSILON:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Configuration {key} must be a {kind} value")
    return str(whole)


def _java_double(value: float) -> str:
    """`1.0E8` for a hundred million, `12.5` as it is."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    shortest = next(text for text in (f"{value:.{digits}e}" for digits in range(1, 18)) if float(text) == value)
    mantissa, _, exponent = shortest.partition("e")
    return f"{mantissa}E{int(exponent)}"
