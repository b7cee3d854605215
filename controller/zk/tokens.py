"""The znodes of delegation tokens. What they hold is the broker's business."""

from __future__ import annotations

from controller.zk import paths
from controller.zk.access import ZnodeAccess, expect
from controller.zk.ops import Code, Delete, SetData

_ANY_VERSION = -1


class TokenZnodes(ZnodeAccess):
    """Reads, writes and notifications below `/delegation_token`."""

    def create_token_paths(self) -> None:
        for path in (paths.DELEGATION_TOKEN_CHANGES, paths.DELEGATION_TOKENS):
            self.create_recursive(path, fail_if_exists=False)

    def token_ids(self) -> list[str]:
        return self.children(paths.DELEGATION_TOKENS, watch=False)

    def token(self, token_id: str) -> tuple[bytes, int] | None:
        """Its content and the version of the znode; None if there is none."""
        found = self.read(f"{paths.DELEGATION_TOKENS}/{token_id}")
        return None if found is None else (found[0] or b"", found[1].version)

    def create_token(self, token_id: str, data: bytes) -> None:
        """A new one, which the brokers are told of."""
        self.create_recursive(f"{paths.DELEGATION_TOKENS}/{token_id}", data, fail_if_exists=False)
        self._tell(token_id)

    def replace_token(self, token_id: str, data: bytes, version: int) -> bool:
        """Write and tell the brokers, if the znode still has this version; False if it has another, or is gone."""
        path = f"{paths.DELEGATION_TOKENS}/{token_id}"
        response = self._one(SetData(path, data, version))
        if response.code in (Code.NO_NODE, Code.BAD_VERSION):
            return False
        expect(response, path)
        self._tell(token_id)
        return True

    def delete_token(self, token_id: str, version: int = _ANY_VERSION) -> bool:
        """Delete and tell the brokers, also of one that is gone already; False if the znode has another version."""
        path = f"{paths.DELEGATION_TOKENS}/{token_id}"
        response = self._one(Delete(path, version))
        if response.code is Code.BAD_VERSION:
            return False
        if response.code is not Code.NO_NODE:
            expect(response, path)
        self._tell(token_id)
        return True

    def _tell(self, token_id: str) -> None:
        changes = f"{paths.DELEGATION_TOKEN_CHANGES}/{paths.DELEGATION_TOKEN_CHANGE_PREFIX}"
        self.create_sequential(changes, token_id.encode())
