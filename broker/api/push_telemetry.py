"""PushTelemetry (key 72, version 0): takes metrics of a client, and shows them on `/metrics`.

Served with `odradek.client.telemetry.enable` only (KIP-714). Everybody may push. Refused are, in this order, what comes
after a terminating push (INVALID_REQUEST), what comes too early (THROTTLING_QUOTA_EXCEEDED; a terminating push never
does), what is for another subscription (UNKNOWN_SUBSCRIPTION_ID), a codec that nobody knows, and what is too large as
it comes or decompressed (TELEMETRY_TOO_LARGE). What is no OTLP is INVALID_RECORD.
"""

from __future__ import annotations

from broker.requests.registry import Call, api
from broker.telemetry.requests import attributes_of, source_of
from broker.telemetry.wiring import is_enabled
from log.records.compression import Codec
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from network.protocol.uuids import ONE_UUID, ZERO_UUID

_CODECS = frozenset(codec.value for codec in Codec)


@api(ApiKey.PUSH_TELEMETRY, versions=(0, 0), enabled=is_enabled)
def handle(call: Call[PushTelemetryRequest]) -> PushTelemetryResponse:
    telemetry, request = call.broker.telemetry, call.request
    assert telemetry is not None
    instance = request.client_instance_id
    if instance in (ZERO_UUID, ONE_UUID):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    subscription = telemetry.clients.check_push(
        instance,
        attributes_of(call, instance),
        request.subscription_id,
        terminating=request.terminating,
        is_codec_known=request.compression_type in _CODECS,
        size=len(request.metrics),
    )
    if request.metrics:
        telemetry.take(source_of(call, instance), subscription, Codec(request.compression_type), request.metrics)
    return PushTelemetryResponse()
