"""AlterClientQuotas (key 49, versions 0 to 1): set or remove quotas of entities."""

from __future__ import annotations

from network.protocol.fields import array, boolean, float64, int16, int32, string
from network.protocol.message import Request, Response, Struct


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class OpData(Struct):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class EntryDataRequest(Struct):
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


class AlterClientQuotasRequest(Request, key=49, versions=(0, 1), flexible=1):
    entries: list[EntryDataRequest] = array(EntryDataRequest)
    validate_only: bool = boolean()


class EntryDataResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[EntityData] = array(EntityData)


class AlterClientQuotasResponse(Response, key=49, versions=(0, 1), flexible=1):
    throttle_time_ms: int = int32()
    entries: list[EntryDataResponse] = array(EntryDataResponse)
