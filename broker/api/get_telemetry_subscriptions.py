"""GetTelemetrySubscriptions (key 71, version 0): what metrics a client shall push, how often, and under which id.

Served with `odradek.client.telemetry.enable` only (KIP-714). Everybody may ask. A client that asks sooner than its push
interval allows gets THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from broker.requests.registry import Call, api
from broker.telemetry.requests import attributes_of
from broker.telemetry.telemetry import ACCEPTED_CODECS
from broker.telemetry.wiring import is_enabled
from network.protocol.api import ApiKey
from network.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from network.protocol.uuids import ZERO_UUID, new_uuid


@api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=(0, 0), enabled=is_enabled)
def handle(call: Call[GetTelemetrySubscriptionsRequest]) -> GetTelemetrySubscriptionsResponse:
    """A client without an id gets one."""
    telemetry = call.broker.telemetry
    assert telemetry is not None
    instance = call.request.client_instance_id
    if instance == ZERO_UUID:
        instance = new_uuid(call.broker.chance)
    subscription = telemetry.clients.subscribe(instance, attributes_of(call, instance))
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance,
        subscription_id=subscription.id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED_CODECS],
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(subscription.metrics),
    )
