"""The table of append errors, cell by cell."""

import pytest

from broker.coordinator.append_errors import Caller, told
from network.protocol.errors import ErrorCode as E

CALLERS = (Caller.CLASSIC_GROUP, Caller.OFFSET_COMMIT, Caller.CONSUMER_GROUP, Caller.TRANSACTION)
NA, NC, LOADING, UNKNOWN = (
    E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_COORDINATOR,
    E.COORDINATOR_LOAD_IN_PROGRESS,
    E.UNKNOWN_SERVER_ERROR,
)
ROWS = {
    E.NONE: (E.NONE, E.NONE, E.NONE, E.NONE),
    E.UNKNOWN_TOPIC_OR_PARTITION: (NA, NA, NA, NA),
    E.NOT_ENOUGH_REPLICAS: (NA, NA, NA, NA),
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (NA, NA, NA, NA),
    E.NOT_LEADER_OR_FOLLOWER: (NC, NC, NC, NC),
    E.KAFKA_STORAGE_ERROR: (NC, NC, NC, NC),
    E.REQUEST_TIMED_OUT: (E.REBALANCE_IN_PROGRESS, E.REQUEST_TIMED_OUT, NA, NA),
    E.NETWORK_EXCEPTION: (E.NETWORK_EXCEPTION, LOADING, LOADING, E.NETWORK_EXCEPTION),
    E.MESSAGE_TOO_LARGE: (UNKNOWN, E.INVALID_COMMIT_OFFSET_SIZE, UNKNOWN, UNKNOWN),
    E.RECORD_LIST_TOO_LARGE: (UNKNOWN, E.INVALID_COMMIT_OFFSET_SIZE, UNKNOWN, UNKNOWN),
    E.INVALID_FETCH_SIZE: (UNKNOWN, E.INVALID_COMMIT_OFFSET_SIZE, UNKNOWN, E.INVALID_FETCH_SIZE),
    E.CORRUPT_MESSAGE: (E.CORRUPT_MESSAGE,) * 4,
}


@pytest.mark.parametrize("append_error", ROWS, ids=lambda error: error.name)
def test_what_each_caller_is_told(append_error: E) -> None:
    assert tuple(told(caller, append_error) for caller in CALLERS) == ROWS[append_error]
