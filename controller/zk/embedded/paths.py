"""Which znode paths are legal."""

from __future__ import annotations

import re

from controller.zk.embedded import codes
from controller.zk.embedded.codes import Refused

# Neither created nor deleted by anybody.
RESERVED = frozenset({"", "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"})

# Control characters, surrogates, the private area and the specials at the end of the basic plane; Java sees every
# character beyond that plane as two surrogates.
_ILLEGAL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]|//|/\\.{1,2}(?=/|$)")


def validate(path: str) -> None:
    """Raises Refused(BAD_ARGUMENTS) unless the path is absolute, normal and free of odd characters."""
    if path == "/":
        return
    if not path.startswith("/") or path.endswith("/") or _ILLEGAL.search(path):
        raise Refused(codes.BAD_ARGUMENTS)


def parent_of(path: str) -> str:
    """The parent of a path that is to be created or deleted; "" is the root's own name there.

    Raises Refused(BAD_ARGUMENTS) for what has no slash.
    """
    parent, slash, _ = path.rpartition("/")
    if not slash or "\0" in path:
        raise Refused(codes.BAD_ARGUMENTS)
    return parent
