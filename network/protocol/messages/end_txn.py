"""EndTxn (key 26, versions 0 to 4): commit or abort a transaction."""

from __future__ import annotations

from network.protocol.fields import boolean, int16, int32, int64, string
from network.protocol.message import Request, Response


class EndTxnRequest(Request, key=26, versions=(0, 4), flexible=3):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Response, key=26, versions=(0, 4), flexible=3):
    throttle_time_ms: int = int32()
    error_code: int = int16()
