"""Common ground of all typed ZooKeeper operations: single requests, recursive create and delete, fencing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.zk.ops import (
    Check,
    Code,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Request,
    Response,
    SetData,
    Stat,
)
from controller.zk.paths import CONTROLLER_EPOCH
from controller.zk.session import Session, SessionHandler, ZkError

# Expected version that turns fencing off.
UNFENCED = -1

# A group of fenced writes travels as one multi; both bounds keep it far below jute.maxbuffer of a default server.
_MAX_GROUP_OPS = 200
_MAX_GROUP_BYTES = 256 * 1024


class ControllerMovedError(Exception):
    """Another broker is controller now: nothing that this controller still wants to write may happen.

    On the wire this is STALE_CONTROLLER_EPOCH.
    """


class ZnodeAccess:
    """Requests over a `Session`, with the error rules that all of Kafka's znodes share."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def read(self, path: str) -> tuple[bytes | None, Stat] | None:
        """Data and stat, or None if the znode does not exist. Arms the watch if a data handler is registered."""
        response = self._one(GetData(path))
        if response.code is Code.NO_NODE:
            return None
        stat = expect(response, path).stat
        assert stat is not None
        return response.data, stat

    def read_all(self, paths: Sequence[str]) -> list[tuple[bytes | None, Stat] | None]:
        """`read` for many paths, pipelined."""
        found: list[tuple[bytes | None, Stat] | None] = []
        for path, response in zip(paths, self.session.submit([GetData(path) for path in paths]), strict=True):
            if response.code is Code.NO_NODE:
                found.append(None)
            else:
                stat = expect(response, path).stat
                assert stat is not None
                found.append((response.data, stat))
        return found

    def exists(self, path: str) -> bool:
        """Whether the znode exists; arms the watch, also on a missing one, if a data handler is registered."""
        response = self._one(Exists(path))
        return response.code is not Code.NO_NODE and expect(response, path).ok

    def children(self, path: str, watch: bool = True) -> list[str]:
        """Names of the children, empty if the znode does not exist. Arms the watch if a child handler is registered."""
        response = self._one(GetChildren(path, watch))
        if response.code is Code.NO_NODE:
            return []
        return list(expect(response, path).children)

    def create_recursive(self, path: str, data: bytes | None = None, *, fail_if_exists: bool = True) -> None:
        """Create a persistent znode and its missing parents (null data).

        Raises `ZkError` with `NODE_EXISTS` only if `fail_if_exists`.
        """
        response = self._one(Create(path, data))
        if response.code is Code.NO_NODE:
            parent = path.rpartition("/")[0]
            if parent:
                self.create_recursive(parent, None, fail_if_exists=False)
            response = self._one(Create(path, data))
        if response.code is Code.NODE_EXISTS and not fail_if_exists:
            return
        expect(response, path)

    def delete_recursive(self, path: str, fence: int = UNFENCED) -> bool:
        """Delete a znode and everything below it, children first; each delete is its own request.

        Returns whether it existed. A tree that someone else deletes at the same time is no error.
        """
        response = self._one(GetChildren(path, watch=False))
        if response.code is Code.NO_NODE:
            return False
        for child in expect(response, path).children:
            self.delete_recursive(f"{path}/{child}", fence)
        deleted = self.fenced([Delete(path)], fence)[0]
        if deleted.code is Code.NO_NODE:
            return False
        expect(deleted, path)
        return True

    def create_sequential(self, path_prefix: str, data: bytes) -> str:
        """Create a persistent sequential znode and its missing parents; returns its full path."""
        request = Create(path_prefix, data, sequential=True)
        response = self._one(request)
        if response.code is Code.NO_NODE:
            self.create_recursive(path_prefix.rpartition("/")[0], None, fail_if_exists=False)
            response = self._one(request)
        return expect(response, path_prefix).path

    def fenced(self, requests: Sequence[Create | Delete | SetData], fence: int) -> list[Response]:
        """Make each write only if `/controller_epoch` still has version `fence`; answers in order.

        Raises `ControllerMovedError` as soon as the fence fails. Writes are independent of each other: neighbours
        share a transaction to save round trips and commits, and when one of them fails the group is repeated one by
        one so that each gets its own answer.
        """
        if fence == UNFENCED:
            return self.session.submit(requests)
        if fence < 0:
            raise ValueError(f"not a version to fence with: {fence}")
        groups = list(_grouped(requests))
        multis = self.session.submit([Multi((Check(CONTROLLER_EPOCH, fence), *group)) for group in groups])
        answers: list[Response] = []
        for group, multi in zip(groups, multis, strict=True):
            _check_fence(multi)
            if multi.ok:
                answers.extend(multi.results[1:])
            elif len(group) == 1:
                answers.append(Response(multi.code))
            else:
                answers.extend(self._fenced_singly(group, fence))
        return answers

    def register_session_handler(self, handler: SessionHandler) -> None:
        self.session.register_session_handler(handler)

    def close(self) -> None:
        self.session.close()

    def _fenced_singly(self, requests: Sequence[Create | Delete | SetData], fence: int) -> list[Response]:
        multis = self.session.submit([Multi((Check(CONTROLLER_EPOCH, fence), request)) for request in requests])
        answers: list[Response] = []
        for multi in multis:
            _check_fence(multi)
            answers.append(multi.results[1] if multi.ok else Response(multi.code))
        return answers

    def _one(self, request: Request) -> Response:
        return self.session.submit([request])[0]


def expect(response: Response, path: str) -> Response:
    """`response` if it is a success, else `ZkError` with its code."""
    if not response.ok:
        raise ZkError(response.code, path)
    return response


def _check_fence(multi: Response) -> None:
    if not multi.results:
        if multi.ok:
            return
        raise ZkError(multi.code, CONTROLLER_EPOCH)
    check = multi.results[0]
    if check.code is Code.BAD_VERSION:
        raise ControllerMovedError("the controller epoch in ZooKeeper is not this controller's any more")
    if not check.ok:
        raise ZkError(check.code, CONTROLLER_EPOCH)


def _grouped(requests: Sequence[Create | Delete | SetData]) -> Iterable[list[Create | Delete | SetData]]:
    group: list[Create | Delete | SetData] = []
    size = 0
    for request in requests:
        data = getattr(request, "data", None)
        cost = len(request.path) + len(data or b"")
        if group and (len(group) == _MAX_GROUP_OPS or size + cost > _MAX_GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(request)
        size += cost
    if group:
        yield group
