"""ApiVersions (key 18, versions 0 to 4): which requests a broker serves, in which versions."""

from __future__ import annotations

from network.protocol.fields import array, boolean, int16, int32, int64, string
from network.protocol.message import Request, Response, Struct


class ApiVersionsRequest(Request, key=18, versions=(0, 4), flexible=3):
    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class FinalizedFeatureKey(Struct):
    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


class ApiVersionsResponse(Response, key=18, versions=(0, 4), flexible=3):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", ignorable=True, tag=0)
    finalized_features_epoch: int = int64("3+", default=-1, ignorable=True, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", ignorable=True, tag=2)
    zk_migration_ready: bool = boolean("3+", ignorable=True, tag=3)
