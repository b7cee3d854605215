"""The handlers of a session: at most one data and one child handler a path, kept over sessions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import Enum

from controller.zk.session import ChildHandler, DataHandler, SessionHandler

logger = logging.getLogger(__name__)


class Change(Enum):
    """What a watch saw."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class HandlerTable:
    """Thread-safe registry that turns a change of a path into the call of its handler."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._data: dict[str, DataHandler] = {}
        self._children: dict[str, ChildHandler] = {}
        self._sessions: dict[str, SessionHandler] = {}

    def register_data(self, handler: DataHandler) -> None:
        with self._lock:
            self._data[handler.path] = handler

    def unregister_data(self, path: str) -> None:
        with self._lock:
            self._data.pop(path, None)

    def register_child(self, handler: ChildHandler) -> None:
        with self._lock:
            self._children[handler.path] = handler

    def unregister_child(self, path: str) -> None:
        with self._lock:
            self._children.pop(path, None)

    def register_session(self, handler: SessionHandler) -> None:
        with self._lock:
            self._sessions[handler.name] = handler

    def unregister_session(self, name: str) -> None:
        with self._lock:
            self._sessions.pop(name, None)

    def watches_data(self, path: str) -> bool:
        return path in self._data

    def watches_children(self, path: str) -> bool:
        return path in self._children

    def fire(self, change: Change, path: str) -> None:
        """Call the handler of `path`. A handler that raises is logged: one must not stop the others."""
        call: Callable[[], None] | None = None
        with self._lock:
            if change is Change.CHILDREN:
                child = self._children.get(path)
                call = child.on_children if child else None
            else:
                data = self._data.get(path)
                if data is not None:
                    call = {
                        Change.CREATED: data.on_created,
                        Change.DELETED: data.on_deleted,
                        Change.CHANGED: data.on_changed,
                    }[change]
        if call is not None:
            _guarded(call, f"{change.value} handler of {path}")

    def before_new_session(self) -> None:
        for handler in self._session_handlers():
            _guarded(handler.before_new_session, f"before-new-session handler {handler.name}")

    def after_new_session(self) -> None:
        for handler in self._session_handlers():
            _guarded(handler.after_new_session, f"after-new-session handler {handler.name}")

    def _session_handlers(self) -> list[SessionHandler]:
        with self._lock:
            return list(self._sessions.values())


def _guarded(call: Callable[[], None], what: str) -> None:
    try:
        call()
    except Exception:
        logger.exception("ZooKeeper %s failed", what)
