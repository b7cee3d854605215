"""CreateAcls (key 30, versions 0 to 3): add ACL bindings."""

from __future__ import annotations

from network.protocol.fields import array, int8, int16, int32, string
from network.protocol.message import Request, Response, Struct


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Request, key=30, versions=(0, 3), flexible=2):
    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class CreateAclsResponse(Response, key=30, versions=(0, 3), flexible=2):
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
