"""DefaultPrincipalData: a principal as an Envelope carries it."""

from __future__ import annotations

from network.protocol.fields import boolean, string
from network.protocol.message import StoredPayload


class DefaultPrincipalData(StoredPayload, versions=(0, 0), flexible=0):
    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()
