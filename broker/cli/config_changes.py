"""Reading and changing configs and quotas of one entity over the protocol, for ``odradek configs``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.cli.client import describe
from broker.cli.config_entities import Entity
from broker.cli.errors import CommandError
from broker.config.admin import BROKER_RESOURCE, DELETE, LOGGER_RESOURCE, SET
from broker.config.view import Source
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ErrorCode
from network.protocol.message import Request
from network.protocol.messages import alter_client_quotas as alter_quotas
from network.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from network.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

_EXACT, _DEFAULT, _ANY = 0, 1, 2
HIDDEN = "(hidden)"
# As Kafka's tools call them.
_SOURCES: dict[int, str] = {
    Source.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    Source.DYNAMIC_BROKER: "DYNAMIC_BROKER_CONFIG",
    Source.DYNAMIC_DEFAULT: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    Source.STATIC: "STATIC_BROKER_CONFIG",
    Source.DEFAULT: "DEFAULT_CONFIG",
    Source.LOGGER: "DYNAMIC_BROKER_LOGGER_CONFIG",
    Source.CLIENT_METRICS: "DYNAMIC_CLIENT_METRICS_CONFIG",
    Source.GROUP: "DYNAMIC_GROUP_CONFIG",
}


@dataclass(frozen=True, slots=True)
class Value:
    """A config or quota. `below` is what would hold without the entity's own value, if the broker told."""

    key: str
    value: str | None
    source: str
    own: bool
    read_only: bool = False
    sensitive: bool = False
    below: str | None = None
    type: int = 0

    @property
    def shown(self) -> str | None:
        return HIDDEN if self.sensitive and self.value is None else self.value


def configs_of(client: ClusterClient, entity: Entity, name: str) -> list[Value]:
    """Every config of one entity that is no quota. Raises CommandError."""
    kind = entity.kind
    resource = DescribeConfigsResource(resource_type=kind.resource, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (found,) = _call(client, kind.resource, name, request).results
    if found.error_code:
        raise CommandError(_problem(f"{kind.singular} {name}", found.error_code, found.error_message))
    own = Source.DYNAMIC_DEFAULT if kind.resource == BROKER_RESOURCE and name == "" else kind.source
    return sorted((_value(entry, own) for entry in found.configs), key=lambda value: value.key)


def _value(entry: DescribeConfigsResourceResult, own: Source | None) -> Value:
    source = entry.config_source
    is_own = source == own
    below = [each.value for each in entry.synonyms if each.source != own] if is_own else []
    return Value(
        entry.name,
        entry.value,
        _SOURCES.get(source, str(source)),
        is_own,
        entry.read_only,
        entry.is_sensitive,
        below[0] if below else None,
        entry.config_type,
    )


def quotas_of(client: ClusterClient, entity: Entity) -> dict[str, list[Value]]:
    """Quotas by entity as a person reads it: of the one entity, or of all that match. Raises CommandError."""
    components = []
    for part in entity.parts:
        kind = _ANY if part.name is None else _EXACT if part.name else _DEFAULT
        match = part.name if kind == _EXACT else None
        components.append(ComponentData(entity_type=part.kind.quota_type, match_type=kind, match=match))
    response = client.call_any(DescribeClientQuotasRequest(components=components, strict=True))
    if response.error_code:
        raise CommandError(_problem(str(entity), response.error_code, response.error_message))
    found = {}
    for entry in response.entries or []:
        names = [
            f"{each.entity_type} {each.entity_name}"
            if each.entity_name is not None
            else f"the default {each.entity_type}"
            for each in sorted(entry.entity, key=lambda each: each.entity_type, reverse=True)
        ]
        found[", ".join(names)] = [
            Value(each.key, f"{each.value:g}" if each.value % 1 else str(int(each.value)), "QUOTA", True)
            for each in sorted(entry.values, key=lambda each: each.key)
        ]
    return found


def change(client: ClusterClient, entity: Entity, changes: Mapping[str, str | None], *, validate_only: bool) -> None:
    """Set configs or quotas, and delete those without a value. Raises CommandError with what the broker refuses."""
    if entity.has_quotas:
        _change_quotas(client, entity, changes, validate_only)
        return
    kind, name = entity.kind, entity.name or ""
    configs = [
        AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
        for key, value in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=kind.resource, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = _call(client, kind.resource, name, request).responses
    if result.error_code:
        raise CommandError(_problem(str(entity), result.error_code, result.error_message))


def _change_quotas(
    client: ClusterClient, entity: Entity, changes: Mapping[str, str | None], validate_only: bool
) -> None:
    operations = []
    for key, value in changes.items():
        if key.startswith("SCRAM-"):
            raise CommandError(f"{key}: credentials are set with `odradek users set`", exit_code=2)
        try:
            number = 0.0 if value is None else float(value)
        except ValueError:
            raise CommandError(f"{key}={value}: a quota is a number", exit_code=2) from None
        operations.append(alter_quotas.OpData(key=key, value=number, remove=value is None))
    names = [
        alter_quotas.EntityData(entity_type=part.kind.quota_type, entity_name=part.name or None)
        for part in entity.parts
    ]
    entry = alter_quotas.EntryDataRequest(entity=names, ops=operations)
    request = alter_quotas.AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    (result,) = client.call_controller(request).entries
    if result.error_code:
        raise CommandError(_problem(str(entity), result.error_code, result.error_message))


def _call(client: ClusterClient, resource: int, name: str, request: Request) -> Any:
    """Configs and loggers of a broker are its own business, all else any broker's."""
    if resource in (BROKER_RESOURCE, LOGGER_RESOURCE) and name:
        return client.call_broker(_broker_id(name), request)
    send: Callable[[Request], Any] = client.call_any
    return send(request)


def _broker_id(name: str) -> int:
    if not name.isdecimal():
        raise CommandError(f"the name of a broker is its id, and {name!r} is no number", exit_code=2)
    return int(name)


def _problem(what: str, code: int, message: str | None) -> str:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"{what} does not exist (UNKNOWN_TOPIC_OR_PARTITION); `odradek topics list` shows those that do"
    if code == ErrorCode.INVALID_CONFIG and what.startswith("broker-logger "):
        return f"{what}: {message} (INVALID_CONFIG); `odradek configs describe --{what}` shows the loggers"
    if code == ErrorCode.INVALID_REQUEST and what.startswith("group "):
        return f"{what}: groups have configs only with group.coordinator.rebalance.protocols=classic,consumer"
    cure = (
        "; set it in the broker's file, and restart"
        if "Cannot update these configs dynamically" in str(message)
        else ""
    )
    return f"{what}: {describe(code, message)}{cure}"
