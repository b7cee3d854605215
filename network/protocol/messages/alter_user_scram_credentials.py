"""AlterUserScramCredentials (key 51, version 0): upsert or delete SCRAM credentials."""

from __future__ import annotations

from network.protocol.fields import array, blob, int8, int16, int32, string
from network.protocol.message import Request, Response, Struct


class ScramCredentialDeletion(Struct):
    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Struct):
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = blob()
    salted_password: bytes = blob()


class AlterUserScramCredentialsRequest(Request, key=51, versions=(0, 0), flexible=0):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class AlterUserScramCredentialsResponse(Response, key=51, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
