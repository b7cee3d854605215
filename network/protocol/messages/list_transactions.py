"""ListTransactions (key 66, versions 0 to 1): transactions that a broker coordinates."""

from __future__ import annotations

from network.protocol.fields import array, int16, int32, int64, string
from network.protocol.message import Request, Response, Struct


class ListTransactionsRequest(Request, key=66, versions=(0, 1), flexible=0):
    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64("1+", default=-1)


class TransactionState(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Response, key=66, versions=(0, 1), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[TransactionState] = array(TransactionState)
