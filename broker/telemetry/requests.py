"""What a request of a client tells of it."""

from __future__ import annotations

from typing import Any

from broker.requests.registry import Call
from broker.telemetry.series import Source
from network.protocol.uuids import to_text


def attributes_of(call: Call[Any], instance: bytes) -> dict[str, str]:
    """What subscriptions are matched with."""
    connection = call.connection
    return {
        "client_instance_id": to_text(instance),
        "client_id": call.header.client_id or "",
        "client_software_name": connection.software_name,
        "client_software_version": connection.software_version,
        "client_source_address": connection.client_host,
        "client_source_port": connection.client_port,
    }


def source_of(call: Call[Any], instance: bytes) -> Source:
    """How what it pushes is labelled."""
    connection = call.connection
    return Source(
        to_text(instance),
        call.header.client_id or "",
        connection.software_name,
        connection.software_version,
        connection.client_host,
        connection.principal,
    )
