"""RenewDelegationToken (key 39, versions 0 to 2): extend the life of a delegation token."""

from __future__ import annotations

from network.protocol.fields import blob, int16, int32, int64
from network.protocol.message import Request, Response


class RenewDelegationTokenRequest(Request, key=39, versions=(0, 2), flexible=2):
    hmac: bytes = blob()
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Response, key=39, versions=(0, 2), flexible=2):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
