"""Requests and answers as values, in the field order of zookeeper.jute."""

from __future__ import annotations

from typing import NamedTuple


class Acl(NamedTuple):
    """Who (`scheme`, `id`) may do what (`perms`, bits)."""

    perms: int
    scheme: str
    id: str


# A node's list. Kept as one object where equal, so that a million nodes have one.
Acls = tuple[Acl, ...]


class Stat(NamedTuple):
    """All that ZooKeeper tells about a znode; times are milliseconds since 1970."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


# -- requests


class ConnectRequest(NamedTuple):
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes
    # Whether the request had the read-only field: only then the answer has it.
    knows_read_only: bool = True


class Nothing(NamedTuple):
    """The body of ping, closeSession and whoAmI."""


class Auth(NamedTuple):
    scheme: str
    data: bytes


class Create(NamedTuple):
    """All five kinds of create; `kind` is the request's type. `ttl` is -1 where the kind has none."""

    kind: int
    path: str
    data: bytes | None
    acl: Acls
    flags: int
    ttl: int = -1


class Delete(NamedTuple):
    path: str
    version: int


class DeleteContainer(NamedTuple):
    path: str


class SetData(NamedTuple):
    path: str
    data: bytes | None
    version: int


class SetAcl(NamedTuple):
    path: str
    acl: Acls
    version: int


class Check(NamedTuple):
    path: str
    version: int


class Read(NamedTuple):
    """exists, getData, getChildren, getChildren2: the type that it came with says which."""

    path: str
    watch: bool = False


class OfPath(NamedTuple):
    """Requests that are a path: sync, getACL, getEphemerals, getAllChildrenNumber."""

    path: str


class SetWatches(NamedTuple):
    """The watches of a client that reconnects; `zxid` is the last one that it has seen."""

    zxid: int
    data: list[str]
    exist: list[str]
    children: list[str]
    persistent: list[str]
    recursive: list[str]

    def how_many(self) -> int:
        """Of all its watches."""
        return sum(map(len, (self.data, self.exist, self.children, self.persistent, self.recursive)))


class AddWatch(NamedTuple):
    path: str
    recursive: bool


class WatchKind(NamedTuple):
    """checkWatches and removeWatches."""

    path: str
    kind: int


Write = Create | Delete | SetData | Check


class Multi(NamedTuple):
    ops: list[Write]


class MultiRead(NamedTuple):
    """Pairs of GET_DATA or GET_CHILDREN and what to read."""

    ops: list[tuple[int, Read]]


class Malformed(NamedTuple):
    """A request whose body could not be read."""


Request = (
    Nothing
    | Auth
    | Create
    | Delete
    | DeleteContainer
    | SetData
    | SetAcl
    | Check
    | Read
    | OfPath
    | SetWatches
    | AddWatch
    | WatchKind
    | Multi
    | MultiRead
    | Malformed
)

# -- answers


class Created(NamedTuple):
    path: str
    # None for the oldest kind of create, whose answer has no stat.
    stat: Stat | None


class Stated(NamedTuple):
    """Of exists, setData and setACL."""

    stat: Stat


class Data(NamedTuple):
    data: bytes | None
    stat: Stat


class Children(NamedTuple):
    """Of getChildren (no stat) and getChildren2."""

    names: list[str]
    stat: Stat | None


class AclList(NamedTuple):
    acl: Acls
    stat: Stat


class Path(NamedTuple):
    """Of sync."""

    path: str


class Paths(NamedTuple):
    """Of getEphemerals."""

    paths: list[str]


class Number(NamedTuple):
    """Of getAllChildrenNumber, and the zero that addWatch is answered with."""

    value: int


class Clients(NamedTuple):
    """Of whoAmI: pairs of scheme and user."""

    infos: list[tuple[str, str]]


class Deleted(NamedTuple):
    """A delete inside a multi."""


class Checked(NamedTuple):
    """A check inside a multi."""


class Failed(NamedTuple):
    """An operation inside a multi that failed, or that was not applied because another failed."""

    code: int


class MultiResult(NamedTuple):
    results: list[Created | Deleted | Stated | Checked | Failed | Data | Children]


class NullToken(NamedTuple):
    """The answer to a SASL token where SASL is not set up."""


Body = (
    Created
    | Stated
    | Data
    | Children
    | AclList
    | Path
    | Paths
    | Number
    | Clients
    | Deleted
    | Checked
    | Failed
    | MultiResult
    | NullToken
)


class Answer(NamedTuple):
    xid: int
    zxid: int
    code: int = 0
    body: Body | None = None


class Event(NamedTuple):
    zxid: int
    type: int
    path: str


class ConnectAnswer(NamedTuple):
    """A session, or `session_id` 0: the one asked for has ended (or its password is wrong)."""

    timeout_ms: int
    session_id: int
    password: bytes
    with_read_only: bool


class Close(NamedTuple):
    """The server ends the connection, after what went before."""


Message = Answer | Event | ConnectAnswer | Close
