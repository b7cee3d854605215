"""What a server knows: tree, sessions, watches, and who is at the other end of a connection."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.zk.embedded import codes
from controller.zk.embedded.acls import Identity
from controller.zk.embedded.codes import Refused
from controller.zk.embedded.sessions import Sessions
from controller.zk.embedded.tree import Tree
from controller.zk.embedded.watches import PERSISTENT, RECURSIVE, WatchTable


@dataclass(slots=True, eq=False)
class Connection:
    """A client's, as the machine knows it."""

    address: str = "127.0.0.1"
    session_id: int = 0
    is_open: bool = True
    identities: list[Identity] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.identities.append(("ip", self.address))


class State:
    """Of one server. `zxid` is that of the last transaction."""

    def __init__(self, sessions: Sessions, tree: Tree, zxid: int, max_watches: int) -> None:
        self.tree = tree
        self.sessions = sessions
        self.zxid = zxid
        self.max_watches = max_watches
        self.data_watches: WatchTable[Connection] = WatchTable()
        self.child_watches: WatchTable[Connection] = WatchTable()

    @property
    def watch_count(self) -> int:
        return len(self.data_watches) + len(self.child_watches)

    def check_room(self) -> None:
        """For one more watch. Raises Refused(THROTTLED)."""
        if len(self.data_watches) + len(self.child_watches) >= self.max_watches:
            raise Refused(codes.THROTTLED)

    def watch_always(self, connection: Connection, path: str, *, recursive: bool) -> None:
        """A watch that no event uses up."""
        self.data_watches.add(path, connection, RECURSIVE if recursive else PERSISTENT)
        if not recursive:
            self.child_watches.add(path, connection, PERSISTENT)
