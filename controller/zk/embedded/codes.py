"""Numbers of ZooKeeper's protocol: request types, error codes, events, modes. As in its zookeeper.jute and ZooDefs.

Plain integers, since each request looks several of them up.
"""

from __future__ import annotations

from typing import Final

# -- request types

CREATE: Final = 1
DELETE: Final = 2
EXISTS: Final = 3
GET_DATA: Final = 4
SET_DATA: Final = 5
GET_ACL: Final = 6
SET_ACL: Final = 7
GET_CHILDREN: Final = 8
SYNC: Final = 9
PING: Final = 11
GET_CHILDREN2: Final = 12
CHECK: Final = 13
MULTI: Final = 14
CREATE2: Final = 15
RECONFIG: Final = 16
CHECK_WATCHES: Final = 17
REMOVE_WATCHES: Final = 18
CREATE_CONTAINER: Final = 19
DELETE_CONTAINER: Final = 20
CREATE_TTL: Final = 21
MULTI_READ: Final = 22
AUTH: Final = 100
SET_WATCHES: Final = 101
SASL: Final = 102
GET_EPHEMERALS: Final = 103
GET_ALL_CHILDREN_NUMBER: Final = 104
SET_WATCHES2: Final = 105
ADD_WATCH: Final = 106
WHO_AM_I: Final = 107
CREATE_SESSION: Final = -10
CLOSE_SESSION: Final = -11
ERROR: Final = -1

# -- error codes

OK: Final = 0
RUNTIME_INCONSISTENCY: Final = -2
MARSHALLING_ERROR: Final = -5
UNIMPLEMENTED: Final = -6
BAD_ARGUMENTS: Final = -8
NO_NODE: Final = -101
NO_AUTH: Final = -102
BAD_VERSION: Final = -103
NO_CHILDREN_FOR_EPHEMERALS: Final = -108
NODE_EXISTS: Final = -110
NOT_EMPTY: Final = -111
SESSION_EXPIRED: Final = -112
INVALID_ACL: Final = -114
AUTH_FAILED: Final = -115
NO_WATCHER: Final = -121
RECONFIG_DISABLED: Final = -123
QUOTA_EXCEEDED: Final = -125
THROTTLED: Final = -127

# -- watch events

NODE_CREATED: Final = 1
NODE_DELETED: Final = 2
NODE_DATA_CHANGED: Final = 3
NODE_CHILDREN_CHANGED: Final = 4
# The only state that a server tells in an event.
SYNC_CONNECTED: Final = 3

# -- kinds of watches to check for or remove

WATCHES_CHILDREN: Final = 1
WATCHES_DATA: Final = 2
WATCHES_ANY: Final = 3
WATCHES_PERSISTENT: Final = 4
WATCHES_RECURSIVE: Final = 5

# -- create flags

EPHEMERAL_FLAGS: Final = frozenset({1, 3})
SEQUENTIAL_FLAGS: Final = frozenset({2, 3, 6})
CONTAINER_FLAG: Final = 4
TTL_FLAGS: Final = frozenset({5, 6})
MAX_FLAG: Final = 6

# -- xids that are not of a request

NOTIFICATION_XID: Final = -1
PING_XID: Final = -2

# -- permissions

READ: Final = 1
WRITE: Final = 2
CREATE_CHILD: Final = 4
DELETE_CHILD: Final = 8
ADMIN: Final = 16
ALL: Final = 31


class Refused(Exception):
    """A request is answered with an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
