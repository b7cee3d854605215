"""DescribeUserScramCredentials (key 50, version 0): which SCRAM credentials users have."""

from __future__ import annotations

from network.protocol.fields import array, int8, int16, int32, string
from network.protocol.message import Request, Response, Struct


class UserName(Struct):
    name: str = string()


class DescribeUserScramCredentialsRequest(Request, key=50, versions=(0, 0), flexible=0):
    users: list[UserName] | None = array(UserName, nullable="0+")


class CredentialInfo(Struct):
    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(Response, key=50, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
