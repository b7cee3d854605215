"""Whether a write may happen, and as which transaction. The checks stand in ZooKeeper's order: it decides the error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from controller.zk.embedded import acls, codes, owners, paths, records
from controller.zk.embedded.acls import Identity
from controller.zk.embedded.codes import Refused
from controller.zk.embedded.records import Acls
from controller.zk.embedded.transactions import (
    CheckTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    Part,
    SetAclTxn,
    SetDataTxn,
)
from controller.zk.embedded.tree import Node, Tree


class Draft(NamedTuple):
    """What a check needs to know of a node as earlier operations of the same multi leave it."""

    acl: Acls
    owner: int
    version: int
    cversion: int
    aversion: int
    child_count: int


class Preparer:
    """The checks of one request of one session."""

    def __init__(self, tree: Tree, session_id: int, identities: Sequence[Identity], max_nodes: int) -> None:
        self._tree = tree
        self._max_nodes = max_nodes
        self._session_id = session_id
        self._identities = identities
        # Nodes that earlier operations of a multi would change; None is deleted. Not kept for a single operation.
        self._drafts: dict[str, Draft | None] | None = None

    def single(self, request: Any) -> Part:
        """Raises Refused."""
        return _CHECKS[type(request)](self, request)

    def multi(self, ops: Sequence[records.Write]) -> MultiTxn:
        """All operations, or the error that one of them makes: earlier ones count as good, later ones as undone."""
        self._drafts = {}
        parts: list[Part] = []
        for op in ops:
            try:
                parts.append(_CHECKS[type(op)](self, op))
            except Refused as refusal:
                before: list[Part] = [ErrorTxn(codes.OK)] * len(parts)
                after = [ErrorTxn(codes.RUNTIME_INCONSISTENCY)] * (len(ops) - len(parts) - 1)
                return MultiTxn((*before, ErrorTxn(refusal.code), *after))
        return MultiTxn(tuple(parts))

    def create(self, request: records.Create) -> CreateTxn:
        kind, path, flags = request.kind, request.path, request.flags
        if not 0 <= flags <= codes.MAX_FLAG:
            raise Refused(codes.BAD_ARGUMENTS)
        has_ttl = flags in codes.TTL_FLAGS
        if has_ttl != (kind == codes.CREATE_TTL) or (has_ttl and not 0 < request.ttl <= owners.MAX_TTL_MS):
            raise Refused(codes.BAD_ARGUMENTS)
        above = paths.parent_of(path)
        acl = acls.resolve(request.acl, self._identities)
        parent = self._node(above)
        acls.check(parent.acl, codes.CREATE_CHILD, self._identities)
        if flags in codes.SEQUENTIAL_FLAGS:
            path = f"{path}{parent.cversion:010d}"
        paths.validate(path)
        if self._exists(path):
            raise Refused(codes.NODE_EXISTS)
        if parent.owner and owners.is_session(parent.owner):
            raise Refused(codes.NO_CHILDREN_FOR_EPHEMERALS)
        if len(self._tree.nodes) >= self._max_nodes:
            raise Refused(codes.QUOTA_EXCEEDED)
        if kind == codes.CREATE_CONTAINER:
            owner = owners.CONTAINER
        elif has_ttl:
            owner = owners.ttl_owner(request.ttl)
        else:
            owner = self._session_id if flags in codes.EPHEMERAL_FLAGS else 0
        if self._drafts is not None:
            self._draft(above, parent, cversion=parent.cversion + 1, child_count=parent.child_count + 1)
            self._drafts[path] = Draft(acl, owner, 0, 0, 0, 0)
        return CreateTxn(path, request.data, acl, owner, kind != codes.CREATE)

    def delete(self, request: records.Delete) -> DeleteTxn:
        path = request.path
        above = paths.parent_of(path)
        if path in paths.RESERVED:
            raise Refused(codes.BAD_ARGUMENTS)
        parent = self._node(above)
        acls.check(parent.acl, codes.DELETE_CHILD, self._identities)
        node = self._node(path)
        _check_version(node.version, request.version)
        if node.child_count:
            raise Refused(codes.NOT_EMPTY)
        return self._deleted(path, above, parent)

    def delete_container(self, request: records.DeleteContainer) -> DeleteTxn:
        """Of the server's own reaper, which asks for no permission."""
        path = request.path
        above = paths.parent_of(path)
        if path in paths.RESERVED:
            raise Refused(codes.BAD_ARGUMENTS)
        node = self._node(path)
        if node.child_count:
            raise Refused(codes.NOT_EMPTY)
        if owners.is_session(node.owner):
            raise Refused(codes.BAD_VERSION)
        return self._deleted(path, above, self._node(above))

    def set_data(self, request: records.SetData) -> SetDataTxn:
        node = self._at(request.path)
        acls.check(node.acl, codes.WRITE, self._identities)
        version = _next_version(node.version, request.version)
        self._draft(request.path, node, version=version)
        return SetDataTxn(request.path, request.data, version)

    def set_acl(self, request: records.SetAcl) -> SetAclTxn:
        paths.validate(request.path)
        acl = acls.resolve(request.acl, self._identities)
        node = self._node(request.path)
        acls.check(node.acl, codes.ADMIN, self._identities)
        return SetAclTxn(request.path, acl, _next_version(node.aversion, request.version))

    def check(self, request: records.Check) -> CheckTxn:
        node = self._at(request.path)
        acls.check(node.acl, codes.READ, self._identities)
        _check_version(node.version, request.version)
        return CheckTxn(request.path)

    def _at(self, path: str) -> Node | Draft:
        paths.validate(path)
        return self._node(path)

    def _node(self, path: str) -> Node | Draft:
        """As it would be now. Raises Refused(NO_NODE)."""
        found: Node | Draft | None
        drafts = self._drafts
        found = drafts[path] if drafts is not None and path in drafts else self._tree.nodes.get(path)
        if found is None:
            raise Refused(codes.NO_NODE)
        return found

    def _exists(self, path: str) -> bool:
        if self._drafts is not None and path in self._drafts:
            return self._drafts[path] is not None
        return path in self._tree.nodes

    def _deleted(self, path: str, above: str, parent: Node | Draft) -> DeleteTxn:
        if self._drafts is not None:
            self._draft(above, parent, child_count=parent.child_count - 1)
            self._drafts[path] = None
        return DeleteTxn(path)

    def _draft(self, path: str, node: Node | Draft, **changes: Any) -> None:
        if self._drafts is None:
            return
        old = Draft(node.acl, node.owner, node.version, node.cversion, node.aversion, node.child_count)
        draft = old._replace(**changes)
        self._drafts[path] = draft
        if path in ("", "/"):
            self._drafts[""] = self._drafts["/"] = draft


def _check_version(current: int, expected: int) -> None:
    if expected not in (-1, current):
        raise Refused(codes.BAD_VERSION)


def _next_version(current: int, expected: int) -> int:
    _check_version(current, expected)
    # -1 would mean "any version" to the next who names it.
    following = current + 1 if current < 0x7FFFFFFF else -0x80000000
    return 0 if following == -1 else following


_CHECKS: dict[type, Callable[[Preparer, Any], Part]] = {
    records.Create: Preparer.create,
    records.Delete: Preparer.delete,
    records.DeleteContainer: Preparer.delete_container,
    records.SetData: Preparer.set_data,
    records.SetAcl: Preparer.set_acl,
    records.Check: Preparer.check,
}
