"""What changes the state: a write that was found good, or the error that used up its zxid. These are what is logged."""

from __future__ import annotations

from typing import NamedTuple

from controller.zk.embedded.records import Acls


class CreateTxn(NamedTuple):
    path: str
    data: bytes | None
    acl: Acls
    # A session for an ephemeral node, `owners.CONTAINER`, a TTL, 0.
    owner: int
    # Whether the answer has a stat.
    with_stat: bool


class DeleteTxn(NamedTuple):
    path: str


class SetDataTxn(NamedTuple):
    path: str
    data: bytes | None
    version: int


class SetAclTxn(NamedTuple):
    path: str
    acl: Acls
    version: int


class CheckTxn(NamedTuple):
    path: str


class ErrorTxn(NamedTuple):
    code: int


class MultiTxn(NamedTuple):
    """All of them good, or all `ErrorTxn`."""

    parts: tuple[Part, ...]


class CreateSessionTxn(NamedTuple):
    timeout_ms: int


class CloseSessionTxn(NamedTuple):
    pass


Part = CreateTxn | DeleteTxn | SetDataTxn | SetAclTxn | CheckTxn | ErrorTxn
Change = Part | MultiTxn | CreateSessionTxn | CloseSessionTxn


class Transaction(NamedTuple):
    """`wall_ms` is the moment of it: ctime and mtime."""

    zxid: int
    session_id: int
    wall_ms: int
    change: Change
