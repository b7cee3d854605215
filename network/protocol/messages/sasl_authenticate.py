"""SaslAuthenticate (key 36, versions 0 to 2): one step of a SASL exchange."""

from __future__ import annotations

from network.protocol.fields import blob, int16, int64, string
from network.protocol.message import Request, Response


class SaslAuthenticateRequest(Request, key=36, versions=(0, 2), flexible=2):
    auth_bytes: bytes = blob()


class SaslAuthenticateResponse(Response, key=36, versions=(0, 2), flexible=2):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = blob()
    session_lifetime_ms: int = int64("1+", ignorable=True)
