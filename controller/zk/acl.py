"""Which ZooKeeper ACL a created znode gets (`zookeeper.set.acl`). ACLs are set at creation and never changed."""

from __future__ import annotations

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

_SENSITIVE_PREFIXES = ("/config/users", "/config/brokers", "/delegation_token/tokens")


def acl_for(path: str, secure: bool) -> list[object]:
    """The ACL entries for `path` (below the chroot).

    With `secure`, secrets are for the creator only and everything else can be read by anyone, except `/consumers`
    itself, where old clients created their own znodes.
    """
    if not secure or path == "/consumers":
        return list(OPEN_ACL_UNSAFE)
    acl: list[object] = list(CREATOR_ALL_ACL)
    if not path.startswith(_SENSITIVE_PREFIXES):
        acl += READ_ACL_UNSAFE
    return acl
