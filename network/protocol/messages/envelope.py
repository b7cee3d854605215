"""Envelope (key 58, version 0): a request forwarded on behalf of another principal."""

from __future__ import annotations

from network.protocol.fields import blob, int16
from network.protocol.message import Request, Response


class EnvelopeRequest(Request, key=58, versions=(0, 0), flexible=0):
    request_data: bytes = blob()
    request_principal: bytes | None = blob(nullable="0+")
    client_host_address: bytes = blob()


class EnvelopeResponse(Response, key=58, versions=(0, 0), flexible=0):
    response_data: bytes | None = blob(nullable="0+", default=None)
    error_code: int = int16()
