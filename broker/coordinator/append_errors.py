"""What a failed append to an internal topic means to whoever asked the coordinator for what it was to store.

| append error | classic group | offset commit | consumer group | transaction |
|---|---|---|---|---|
| UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND | COORDINATOR_NOT_AVAILABLE | = | = | = |
| NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR | NOT_COORDINATOR | = | = | = |
| REQUEST_TIMED_OUT | REBALANCE_IN_PROGRESS | itself | COORDINATOR_NOT_AVAILABLE | COORDINATOR_NOT_AVAILABLE |
| NETWORK_EXCEPTION (of the verification) | itself | COORDINATOR_LOAD_IN_PROGRESS | COORDINATOR_LOAD_IN_PROGRESS | itself |
| too large | UNKNOWN_SERVER_ERROR | INVALID_COMMIT_OFFSET_SIZE | UNKNOWN_SERVER_ERROR | UNKNOWN_SERVER_ERROR |

All others are told as they are.
"""  # noqa: E501

from __future__ import annotations

from enum import Enum

from network.protocol.errors import ErrorCode as E


class Caller(Enum):
    """Whose records were to be stored."""

    CLASSIC_GROUP = "classic group"
    OFFSET_COMMIT = "offset commit"
    CONSUMER_GROUP = "consumer group"
    TRANSACTION = "transaction"


_COMMON = {
    E.UNKNOWN_TOPIC_OR_PARTITION: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
}
_TOO_LARGE = (E.MESSAGE_TOO_LARGE, E.RECORD_LIST_TOO_LARGE, E.INVALID_FETCH_SIZE)
_DIFFERENCES = {
    Caller.CLASSIC_GROUP: {
        E.REQUEST_TIMED_OUT: E.REBALANCE_IN_PROGRESS,
        **dict.fromkeys(_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
    },
    Caller.OFFSET_COMMIT: {
        E.NETWORK_EXCEPTION: E.COORDINATOR_LOAD_IN_PROGRESS,
        **dict.fromkeys(_TOO_LARGE, E.INVALID_COMMIT_OFFSET_SIZE),
    },
    Caller.CONSUMER_GROUP: {
        E.REQUEST_TIMED_OUT: E.COORDINATOR_NOT_AVAILABLE,
        E.NETWORK_EXCEPTION: E.COORDINATOR_LOAD_IN_PROGRESS,
        **dict.fromkeys(_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
    },
    Caller.TRANSACTION: {
        E.REQUEST_TIMED_OUT: E.COORDINATOR_NOT_AVAILABLE,
        # INVALID_FETCH_SIZE is told as it is.
        E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
        E.RECORD_LIST_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    },
}
_TABLE = {caller: {**_COMMON, **differences} for caller, differences in _DIFFERENCES.items()}


def told(caller: Caller, append_error: E) -> E:
    """What the caller is told of an append that ended with this error (NONE included)."""
    return _TABLE[caller].get(append_error, append_error)
