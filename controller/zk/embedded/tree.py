"""The znodes, and what a transaction does to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.zk.embedded import acls, codes, owners, records
from controller.zk.embedded.records import Acl, Acls, Stat
from controller.zk.embedded.transactions import (
    CheckTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    Part,
    SetAclTxn,
    SetDataTxn,
    Transaction,
)

Result = records.Created | records.Deleted | records.Stated | records.Checked | records.Failed
# What happened (a node event), to which path, under which list.
OnEvent = Callable[[int, str, Acls], None]

_MAX_SHARED_LISTS = 10_000
_READ_ONLY: Acls = (Acl(codes.READ, "world", "anyone"),)


class Node:
    """One znode. `cversion` counts the children that were ever created; clients are shown that of all changes."""

    __slots__ = (
        "acl",
        "aversion",
        "children",
        "ctime",
        "cversion",
        "czxid",
        "data",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(self, data: bytes | None, acl: Acls, owner: int, zxid: int, wall_ms: int) -> None:
        self.data = data
        self.acl = acl
        self.owner = owner
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = wall_ms
        self.version = self.cversion = self.aversion = 0
        # In order of creation; None as long as there was none.
        self.children: dict[str, None] | None = None

    @property
    def child_count(self) -> int:
        return len(self.children) if self.children else 0

    def stat(self) -> Stat:
        count = len(self.children) if self.children else 0
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            # Each create has a delete, except those of the children that are there.
            self.cversion * 2 - count,
            self.aversion,
            # Clients are not shown a container's or a time to live's.
            self.owner if self.owner > 0 else 0,
            len(self.data) if self.data else 0,
            count,
            self.pzxid,
        )


def _nothing(kind: int, path: str, acl: Acls) -> None:
    return None


class Tree:
    """Applies transactions; `prepare.py` has seen that they can be."""

    def __init__(self) -> None:
        root = Node(b"", acls.OPEN, 0, 0, 0)
        # The root has two names: "" is what stands before the first slash.
        self.nodes: dict[str, Node] = {"": root, "/": root}
        # Paths by session, in order of creation.
        self.ephemerals: dict[int, dict[str, None]] = {}
        # Containers and nodes with a time to live: what `reapable` looks at.
        self.mortal: dict[str, None] = {}
        self.data_size = 0
        self._lists: dict[Acls, Acls] = {acls.OPEN: acls.OPEN}
        for path, acl in (
            ("/zookeeper", acls.OPEN),
            ("/zookeeper/quota", acls.OPEN),
            ("/zookeeper/config", _READ_ONLY),
        ):
            parent, _, name = path.rpartition("/")
            self.insert(path, Node(b"", acl, 0, 0, 0))
            self._adopt(self.nodes[parent], name)
        self.nodes["/zookeeper/config"].aversion = -1

    @classmethod
    def restored(cls, nodes: Iterable[tuple[str, Node]]) -> Tree:
        """Out of a snapshot, which has parents before their children."""
        tree = cls()
        for path in ("/zookeeper/config", "/zookeeper/quota", "/zookeeper"):
            tree.delete(path, 0)
        tree.data_size = 0
        for path, node in nodes:
            tree.insert(path, node)
            if path == "/":
                tree.nodes[""] = node
                tree.data_size = len(node.data or b"")
            else:
                above, _, name = path.rpartition("/")
                tree._adopt(tree.nodes[above], name)
        return tree

    def insert(self, path: str, node: Node) -> None:
        """Put a node in its place, without a word to its parent."""
        node.acl = self._shared(node.acl)
        self.nodes[path] = node
        self.data_size += len(path) + len(node.data or b"")
        owner = node.owner
        if owner:
            if owners.is_session(owner):
                self.ephemerals.setdefault(owner, {})[path] = None
            else:
                self.mortal[path] = None

    def apply(self, part: Part, transaction: Transaction, on_event: OnEvent = _nothing) -> Result:
        """Do one part of `transaction`; `on_event` hears of what watches may wait for, in ZooKeeper's order."""
        if isinstance(part, CreateTxn):
            return self._create(part, transaction, on_event)
        if isinstance(part, SetDataTxn):
            return self._set_data(part, transaction, on_event)
        if isinstance(part, DeleteTxn):
            self.delete(part.path, transaction.zxid, on_event)
            return records.Deleted()
        if isinstance(part, SetAclTxn):
            node = self.nodes[part.path]
            node.acl = self._shared(part.acl)
            node.aversion = part.version
            return records.Stated(node.stat())
        if isinstance(part, CheckTxn):
            return records.Checked()
        assert isinstance(part, ErrorTxn)
        return records.Failed(part.code)

    def _create(self, part: CreateTxn, transaction: Transaction, on_event: OnEvent) -> records.Created:
        path = part.path
        above, _, name = path.rpartition("/")
        parent = self.nodes[above]
        node = Node(part.data, part.acl, part.owner, transaction.zxid, transaction.wall_ms)
        self.insert(path, node)
        self._adopt(parent, name)
        parent.cversion += 1
        parent.pzxid = transaction.zxid
        on_event(codes.NODE_CREATED, path, node.acl)
        on_event(codes.NODE_CHILDREN_CHANGED, above or "/", parent.acl)
        return records.Created(path, node.stat() if part.with_stat else None)

    def _set_data(self, part: SetDataTxn, transaction: Transaction, on_event: OnEvent) -> records.Stated:
        node = self.nodes[part.path]
        self.data_size += len(part.data or b"") - len(node.data or b"")
        node.data = part.data
        node.mtime = transaction.wall_ms
        node.mzxid = transaction.zxid
        node.version = part.version
        on_event(codes.NODE_DATA_CHANGED, part.path, node.acl)
        return records.Stated(node.stat())

    def delete(self, path: str, zxid: int, on_event: OnEvent = _nothing) -> None:
        """Take a node away that has no children."""
        above, _, name = path.rpartition("/")
        parent = self.nodes[above]
        node = self.nodes.pop(path)
        assert parent.children is not None
        del parent.children[name]
        if not parent.children:
            # A dict that was large once keeps its size.
            parent.children = None
        parent.pzxid = zxid
        self.data_size -= len(path) + len(node.data or b"")
        if node.owner:
            if owners.is_session(node.owner):
                mine = self.ephemerals[node.owner]
                del mine[path]
                if not mine:
                    del self.ephemerals[node.owner]
            else:
                del self.mortal[path]
        on_event(codes.NODE_DELETED, path, node.acl)
        on_event(codes.NODE_CHILDREN_CHANGED, above or "/", parent.acl)

    def end_session(self, session_id: int, zxid: int, on_event: OnEvent = _nothing) -> None:
        """Its ephemeral nodes go."""
        for path in list(self.ephemerals.get(session_id, ())):
            self.delete(path, zxid, on_event)

    def count_below(self, path: str) -> int:
        """Nodes below `path` at any depth."""
        if path == "/":
            return len(self.nodes) - 2
        start = f"{path}/"
        return sum(1 for name in self.nodes if name.startswith(start))

    def reapable(self, wall_ms: int, never_used_ms: int) -> list[str]:
        """Containers that lost their last child, or had none for `never_used_ms` (unless 0); nodes past their time."""
        found = []
        for path in self.mortal:
            node = self.nodes[path]
            if node.children:
                continue
            age = wall_ms - node.mtime
            if owners.is_ttl(node.owner):
                if age > owners.ttl_of(node.owner):
                    found.append(path)
            elif node.cversion > 0 or 0 < never_used_ms < age:
                found.append(path)
        return found

    @property
    def shared_lists(self) -> int:
        """How many different access lists are kept for further nodes."""
        return len(self._lists)

    def _shared(self, acl: Acls) -> Acls:
        """The same object for equal lists; a client with a new list each time does not make us keep them all."""
        if len(self._lists) >= _MAX_SHARED_LISTS:
            self._lists = {acls.OPEN: acls.OPEN}
        return self._lists.setdefault(acl, acl)

    def _adopt(self, parent: Node, name: str) -> None:
        if parent.children is None:
            parent.children = {}
        parent.children[name] = None
