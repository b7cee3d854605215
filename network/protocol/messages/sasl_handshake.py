"""SaslHandshake (key 17, versions 0 to 1): choose a SASL mechanism."""

from __future__ import annotations

from network.protocol.fields import array, int16, string
from network.protocol.message import Request, Response


class SaslHandshakeRequest(Request, key=17, versions=(0, 1)):
    mechanism: str = string()


class SaslHandshakeResponse(Response, key=17, versions=(0, 1)):
    error_code: int = int16()
    mechanisms: list[str] = array(string)
