"""The znodes of delegation tokens. What they hold is the broker's business."""

from __future__ import annotations

from controller.zk import paths
from controller.zk.access import ZnodeAccess
from controller.zk.ops import Code, Delete, SetData
from controller.zk.session import ZkError


class TokenZnodes(ZnodeAccess):
    """Reads, writes and notifications below `/delegation_token`."""

    def create_token_paths(self) -> None:
        for path in (paths.DELEGATION_TOKEN_CHANGES, paths.DELEGATION_TOKENS):
            self.create_recursive(path, fail_if_exists=False)

    def token_ids(self) -> list[str]:
        return self.children(paths.DELEGATION_TOKENS, watch=False)

    def token(self, token_id: str) -> bytes | None:
        """Its content; None if there is none."""
        found = self.read(f"{paths.DELEGATION_TOKENS}/{token_id}")
        return None if found is None else found[0]

    def put_token(self, token_id: str, data: bytes) -> None:
        """Write, whatever was there, and tell the brokers."""
        path = f"{paths.DELEGATION_TOKENS}/{token_id}"
        response = self._one(SetData(path, data))
        if response.code is Code.NO_NODE:
            self.create_recursive(path, data)
        elif not response.ok:
            raise ZkError(response.code, path)
        self._tell(token_id)

    def delete_token(self, token_id: str) -> None:
        """Also one that is gone already is told."""
        path = f"{paths.DELEGATION_TOKENS}/{token_id}"
        response = self._one(Delete(path))
        if not response.ok and response.code is not Code.NO_NODE:
            raise ZkError(response.code, path)
        self._tell(token_id)

    def _tell(self, token_id: str) -> None:
        changes = f"{paths.DELEGATION_TOKEN_CHANGES}/{paths.DELEGATION_TOKEN_CHANGE_PREFIX}"
        self.create_sequential(changes, token_id.encode())
