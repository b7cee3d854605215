"""Who a client is, and what a node's list lets it do: the schemes world, auth, digest, ip and super."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from collections.abc import Sequence

from controller.zk.embedded import codes
from controller.zk.embedded.codes import Refused
from controller.zk.embedded.records import Acl, Acls

# A scheme and an id, as a connection has shown them.
Identity = tuple[str, str]

OPEN: Acls = (Acl(codes.ALL, "world", "anyone"),)


def digest_of(credentials: str) -> str:
    """``user:password`` as ACLs keep it: ``user:`` and the SHA-1 of both."""
    user = credentials.split(":", 1)[0]
    # ZooKeeper's own digest: a name for a secret, not a protection of it.
    hashed = hashlib.sha1(credentials.encode(), usedforsecurity=False).digest()
    return f"{user}:{base64.b64encode(hashed).decode()}"


def authenticate(scheme: str, data: bytes, address: str) -> Identity | None:
    """The identity that an auth request proves, None if it proves none."""
    if scheme == "digest":
        return scheme, digest_of(data.decode("utf-8", "replace"))
    if scheme == "ip":
        return scheme, address
    return None


def user_of(identity: Identity) -> str:
    """What whoAmI shows: a digest without its secret half."""
    scheme, name = identity
    return name.split(":", 1)[0] if scheme == "digest" else name


def allows(acl: Acls, perms: int, identities: Sequence[Identity]) -> bool:
    """Whether one of the identities has one of `perms`."""
    if acl is OPEN or not acl:
        return True
    for granted, scheme, name in acl:
        if granted & perms:
            if scheme == "world" and name == "anyone":
                return True
            if any(mine == scheme and _matches(scheme, known, name) for mine, known in identities):
                return True
    return any(scheme == "super" for scheme, _ in identities)


def check(acl: Acls, perms: int, identities: Sequence[Identity]) -> None:
    """Raises Refused(NO_AUTH)."""
    if not allows(acl, perms, identities):
        raise Refused(codes.NO_AUTH)


def resolve(acl: Acls, identities: Sequence[Identity]) -> Acls:
    """The list as it is kept: without doubles, "auth" replaced by who the client is.

    Raises Refused(INVALID_ACL) for an empty list, an unknown scheme or a malformed id.
    """
    if acl == OPEN:
        return OPEN
    found: list[Acl] = []
    for item in dict.fromkeys(acl):
        if item.scheme == "world" and item.id == "anyone":
            found.append(item)
        elif item.scheme == "auth":
            mine = [Acl(item.perms, scheme, name) for scheme, name in identities if scheme == "digest"]
            if not mine:
                raise Refused(codes.INVALID_ACL)
            found.extend(mine)
        elif _is_valid(item.scheme, item.id):
            found.append(item)
        else:
            raise Refused(codes.INVALID_ACL)
    if not found:
        raise Refused(codes.INVALID_ACL)
    return tuple(found)


def masked(acl: Acls) -> Acls:
    """The list for a client that may read but not administer: no hashes of passwords."""
    return tuple(item._replace(id=f"{item.id.split(':', 1)[0]}:x") if item.scheme == "digest" else item for item in acl)


def _is_valid(scheme: str, name: str) -> bool:
    if scheme == "digest":
        parts = name.rstrip(":").split(":")
        return len(parts) == 2
    if scheme == "ip":
        return _network(name) is not None
    return False


def _matches(scheme: str, known: str, wanted: str) -> bool:
    if scheme == "ip":
        network = _network(wanted)
        try:
            return network is not None and ipaddress.ip_address(known) in network
        except ValueError:
            return False
    return known == wanted


def _network(name: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(name, strict=False)
    except ValueError:
        return None
