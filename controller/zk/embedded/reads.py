"""Requests that change nothing but watches: each a function of the state, in one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.zk.embedded import acls, codes, records, watches
from controller.zk.embedded.codes import Refused
from controller.zk.embedded.state import Connection, State
from controller.zk.embedded.tree import Node

# Data and names in the answer to a multi-read.
MAX_ANSWER_BYTES = 16 << 20


def _readable(state: State, connection: Connection, path: str) -> Node:
    node = state.tree.nodes.get(path)
    if node is None:
        raise Refused(codes.NO_NODE)
    acls.check(node.acl, codes.READ, connection.identities)
    return node


def _exists(state: State, connection: Connection, request: records.Read) -> records.Stated:
    if "\0" in request.path:
        raise Refused(codes.BAD_ARGUMENTS)
    node = state.tree.nodes.get(request.path)
    if node is not None:
        acls.check(node.acl, codes.READ, connection.identities)
    if request.watch:
        state.check_room()
        state.data_watches.add(request.path, connection)
    if node is None:
        raise Refused(codes.NO_NODE)
    return records.Stated(node.stat())


def _get_data(state: State, connection: Connection, request: records.Read) -> records.Data:
    node = _readable(state, connection, request.path)
    if request.watch:
        state.check_room()
        state.data_watches.add(request.path, connection)
    return records.Data(node.data, node.stat())


def _children(state: State, connection: Connection, request: records.Read) -> records.Children:
    node = _readable(state, connection, request.path)
    if request.watch:
        state.check_room()
        state.child_watches.add(request.path, connection)
    return records.Children(list(node.children or ()), None)


def _children2(state: State, connection: Connection, request: records.Read) -> records.Children:
    names = _children(state, connection, request).names
    return records.Children(names, state.tree.nodes[request.path].stat())


def _multi_read(state: State, connection: Connection, request: records.MultiRead) -> records.MultiResult:
    """Raises Refused(MARSHALLING_ERROR) when the answer would be larger than any client takes: a request of 1 MiB can
    ask for one large node fifty thousand times.
    """
    results: list[Any] = []
    left = MAX_ANSWER_BYTES
    for kind, op in request.ops:
        try:
            result = (_get_data if kind == codes.GET_DATA else _children)(state, connection, op)
            left -= len(result.data or b"") if isinstance(result, records.Data) else sum(map(len, result.names))
            if left < 0:
                break
            results.append(result)
        except Refused as refusal:
            results.append(records.Failed(refusal.code))
    if left < 0:
        raise Refused(codes.MARSHALLING_ERROR)
    return records.MultiResult(results)


def _get_acl(state: State, connection: Connection, request: records.OfPath) -> records.AclList:
    node = state.tree.nodes.get(request.path)
    if node is None:
        raise Refused(codes.NO_NODE)
    acls.check(node.acl, codes.READ | codes.ADMIN, connection.identities)
    is_admin = acls.allows(node.acl, codes.ADMIN, connection.identities)
    return records.AclList(node.acl if is_admin else acls.masked(node.acl), node.stat())


def _sync(state: State, connection: Connection, request: records.OfPath) -> records.Path:
    """With one node everything is where it should be."""
    return records.Path(request.path)


def _ephemerals(state: State, connection: Connection, request: records.OfPath) -> records.Paths:
    mine = state.tree.ephemerals.get(connection.session_id, {})
    prefix = request.path if request.path.strip() != "/" else ""
    return records.Paths([path for path in mine if path.startswith(prefix.strip() and prefix)])


def _count_below(state: State, connection: Connection, request: records.OfPath) -> records.Number:
    _readable(state, connection, request.path)
    return records.Number(state.tree.count_below(request.path))


def _add_watch(state: State, connection: Connection, request: records.AddWatch) -> records.Number:
    state.check_room()
    state.watch_always(connection, request.path, recursive=request.recursive)
    return records.Number(0)


# Which table and which modes a kind of watch means.
_KINDS = {
    codes.WATCHES_CHILDREN: (0, watches.STANDARD),
    codes.WATCHES_DATA: (watches.STANDARD, 0),
    codes.WATCHES_ANY: (watches.ANY, watches.ANY),
    codes.WATCHES_PERSISTENT: (watches.PERSISTENT, watches.PERSISTENT),
    codes.WATCHES_RECURSIVE: (watches.RECURSIVE, 0),
}


def _check_watches(state: State, connection: Connection, request: records.WatchKind) -> None:
    data, children = _KINDS[request.kind]
    if request.kind == codes.WATCHES_PERSISTENT:
        children = 0
    found = state.data_watches.has(request.path, connection, data)
    if not found and not state.child_watches.has(request.path, connection, children):
        raise Refused(codes.NO_WATCHER)


def _remove_watches(state: State, connection: Connection, request: records.WatchKind) -> None:
    data, children = _KINDS[request.kind]
    removed = state.data_watches.remove(request.path, connection, data)
    if not state.child_watches.remove(request.path, connection, children) and not removed:
        raise Refused(codes.NO_WATCHER)


def _who_am_i(state: State, connection: Connection, request: records.Nothing) -> records.Clients:
    return records.Clients([(each[0], acls.user_of(each)) for each in connection.identities])


READS: dict[int, Callable[[State, Connection, Any], records.Body | None]] = {
    codes.EXISTS: _exists,
    codes.GET_DATA: _get_data,
    codes.GET_CHILDREN: _children,
    codes.GET_CHILDREN2: _children2,
    codes.MULTI_READ: _multi_read,
    codes.GET_ACL: _get_acl,
    codes.SYNC: _sync,
    codes.GET_EPHEMERALS: _ephemerals,
    codes.GET_ALL_CHILDREN_NUMBER: _count_below,
    codes.ADD_WATCH: _add_watch,
    codes.CHECK_WATCHES: _check_watches,
    codes.REMOVE_WATCHES: _remove_watches,
    codes.WHO_AM_I: _who_am_i,
}
