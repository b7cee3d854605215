"""ZooKeeper requests and responses as plain values.

Everything above the session speaks in these, so that a session can be the real one (`kazoo_session`) or a model of
ZooKeeper in the same process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum


class Code(IntEnum):
    """Result codes, numbered as ZooKeeper numbers them."""

    OK = 0
    RUNTIME_INCONSISTENCY = -2
    CONNECTION_LOSS = -4
    UNIMPLEMENTED = -6
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    AUTH_FAILED = -115
    OTHER = -1


@dataclass(frozen=True, slots=True)
class Stat:
    """The part of a znode's stat that Kafka uses. Times are milliseconds since 1970 by ZooKeeper's clock."""

    czxid: int
    mzxid: int
    ctime: int
    version: int
    ephemeral_owner: int = 0
    cversion: int = 0
    pzxid: int = 0


@dataclass(frozen=True, slots=True)
class Create:
    """Create a znode. `data` `None` is null data (length -1), which is not the same as an empty array."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a znode without children. Version -1 matches any."""

    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace the data of a znode. Version -1 matches any."""

    path: str
    data: bytes | None
    version: int = -1


@dataclass(frozen=True, slots=True)
class Check:
    """Only valid in a `Multi`: fail unless the znode has this version."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class GetData:
    """Read a znode; leaves a watch exactly when a data handler is registered for the path."""

    path: str


@dataclass(frozen=True, slots=True)
class Exists:
    """Stat of a znode or `NO_NODE`; leaves a watch exactly when a data handler is registered for the path."""

    path: str


@dataclass(frozen=True, slots=True)
class GetChildren:
    """List children; leaves a watch when asked for and a child handler is registered for the path."""

    path: str
    watch: bool = True


WriteOp = Create | Delete | SetData | Check


@dataclass(frozen=True, slots=True)
class Multi:
    """All operations or none."""

    ops: tuple[WriteOp, ...]


@dataclass(frozen=True, slots=True)
class GetMany:
    """Read many znodes at once, without watches; `results` of the answer are those of each path.

    Sessions make these themselves out of neighbouring `GetData` requests that nobody watches.
    """

    paths: tuple[str, ...]


Request = Create | Delete | SetData | GetData | GetMany | Exists | GetChildren | Multi


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to one request. Only the fields that its kind of request has are set.

    `results` of a failed `Multi`: operations before the failing one are `OK`, the failing one has its code, later
    ones `RUNTIME_INCONSISTENCY`; `code` is then the failing one's.
    """

    code: Code
    path: str = ""
    data: bytes | None = None
    stat: Stat | None = None
    children: Sequence[str] = ()
    results: Sequence[Response] = field(default=())

    @property
    def ok(self) -> bool:
        return self.code is Code.OK
