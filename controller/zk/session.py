"""What the layers above need of a ZooKeeper session, the handlers it calls, and its errors.

The session itself, and what happens when it expires: `kazoo_session.py`; what the controller then does:
`controller/controller.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from controller.zk.ops import Code, Request, Response


class ZkError(Exception):
    """A ZooKeeper request failed with a code that its caller does not handle."""

    def __init__(self, code: Code, path: str = "", message: str | None = None) -> None:
        super().__init__(message or f"{code.name}{' for ' + path if path else ''}")
        self.code = code
        self.path = path


class SessionExpiredError(ZkError):
    """The session that a request belonged to is gone; the request may or may not have been applied."""

    def __init__(self, message: str = "ZooKeeper session expired") -> None:
        super().__init__(Code.SESSION_EXPIRED, message=message)


class AuthenticationFailedError(ZkError):
    """ZooKeeper refused the credentials of this client."""

    def __init__(self) -> None:
        super().__init__(Code.AUTH_FAILED, message="ZooKeeper authentication failed")


class ConnectTimeoutError(Exception):
    """No ZooKeeper server answered within `zookeeper.connection.timeout.ms`."""


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class DataHandler:
    """Called on the watch thread when the znode at `path` changes; must only enqueue."""

    path: str
    on_created: Callable[[], None] = _nothing
    on_deleted: Callable[[], None] = _nothing
    on_changed: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class ChildHandler:
    """Called on the watch thread when a child of `path` comes or goes; must only enqueue."""

    path: str
    on_children: Callable[[], None]


@dataclass(frozen=True, slots=True)
class SessionHandler:
    """Called by the session's own thread around a new session after expiry. May block: nothing else is going on."""

    name: str
    before_new_session: Callable[[], None] = _nothing
    after_new_session: Callable[[], None] = _nothing


class Session(Protocol):
    """One ZooKeeper session after the other. Handlers survive sessions, watches and requests do not."""

    @property
    def session_id(self) -> int:
        """Id of the current session; 0 before the first."""
        ...

    def waited_ns(self) -> int:
        """How long the calling thread has been in `submit` altogether, since the thread began."""
        ...

    def submit(self, requests: Sequence[Request]) -> list[Response]:
        """Pipeline `requests` and wait for all answers, in the order of the requests.

        Requests that a lost connection interrupted are sent again after the reconnect, so each may have been applied
        before. Raises `SessionExpiredError` when the session ends first and `AuthenticationFailedError`.
        """
        ...

    def register_data_handler(self, handler: DataHandler) -> None:
        """Local only: the next read of the path leaves the watch."""
        ...

    def unregister_data_handler(self, path: str) -> None: ...

    def register_child_handler(self, handler: ChildHandler) -> None:
        """Local only: the next listing of the path leaves the watch."""
        ...

    def unregister_child_handler(self, path: str) -> None: ...

    def register_session_handler(self, handler: SessionHandler) -> None: ...

    def unregister_session_handler(self, name: str) -> None: ...

    def close(self) -> None:
        """End the session: its ephemeral znodes go away at once. Idempotent."""
        ...
