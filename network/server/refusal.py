"""The one line that the log has of a request to which the only answer is a closed connection.

A client that never asked ApiVersions sees nothing but an end of file, so this line is what an operator finds the reason
in: which API, which version, and who. The connection's id beside it has the client's address.
"""

from __future__ import annotations

from network.protocol.api import API
from network.protocol.header import RequestHeader


def refusal(header: RequestHeader, reason: str) -> str:
    """What was asked for, by whom, and why it is refused."""
    spec = API.get(header.api_key)
    name = f"API key {header.api_key}" if spec is None else f"{spec.name} (API key {header.api_key})"
    client = f"client {header.client_id!r}" if header.client_id else "a client without a readable id"
    return f"closed, because the request {name} version {header.api_version} of {client} {reason}"


def unserved(header: RequestHeader, served: tuple[int, int] | None) -> str:
    """`refusal` of an API, or a version, that is not among those `served` (lowest and highest), with the cure."""
    text = refusal(header, "is not served")
    if served is None:
        return f"{text}: the client needs another kind of broker"
    lowest, highest = served
    if header.api_version < lowest:
        return f"{text}, only {lowest} to {highest}: the client is too old, update it"
    return f"{text}, only {lowest} to {highest}: the client is newer than this broker and did not ask what it serves"
