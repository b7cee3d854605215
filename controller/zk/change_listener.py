"""Listening to sequential change notifications: configs, ACLs, delegation tokens.

Each notification is applied once and in order of its number. Notifications older than 15 minutes are removed by
whoever runs next; a broker that was away longer reads everything when it starts anyway, and one that had no session
for longer is given the chance to (`reload`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from controller.zk.access import ZnodeAccess
from controller.zk.ops import Delete
from controller.zk.paths import sequence_of
from controller.zk.reruns import Reruns
from controller.zk.session import ChildHandler, SessionExpiredError, SessionHandler
from timer.worker import Workers

if TYPE_CHECKING:
    from timer.clock import Clock

logger = logging.getLogger(__name__)

CHANGE_EXPIRATION_MS = 15 * 60 * 1000
_NEVER_OLD = float("inf")


class ChangeListener:
    """Calls `process(data)` for each new notification below `path`, on a thread of its own.

    A run is enqueued by the watch and by a new session, and only if none is waiting already. `step()` is one turn of
    the thread, for those who drive it themselves. `reload` is called once in each new session, before what is new.
    """

    def __init__(
        self,
        client: ZnodeAccess,
        path: str,
        prefix: str,
        process: Callable[[bytes], None],
        clock: Clock,
        workers: Workers | None = None,
        reload: Callable[[], None] | None = None,
    ) -> None:
        self._client = client
        self._path = path
        self._prefix = prefix
        self._process = process
        self._clock = clock
        self._last_applied = -1
        self._reload = reload
        self._reload_wanted = False
        self._made_ms: dict[int, float] = {}
        """When each notification that is still there was made. What is known here is not read once more: a thousand
        changes would else cost a million reads, and each further one would wait for a thousand."""
        self._name = f"change-listener{path}"
        self._reruns = Reruns(self._name, self._guarded_run, clock, workers)

    def start(self, *, own_thread: bool = True) -> None:
        """Register the handlers and apply all notifications that are there."""
        self._client.session.register_child_handler(ChildHandler(self._path, self._reruns.request))
        handler = SessionHandler(self._name, after_new_session=self._on_new_session)
        self._client.session.register_session_handler(handler)
        self.run()
        if own_thread:
            self._reruns.start()

    def close(self) -> None:
        self._client.session.unregister_session_handler(self._name)
        self._client.session.unregister_child_handler(self._path)
        self._reruns.close()

    def step(self) -> float | None:
        """Run once if a run is waiting; None if none is."""
        return self._reruns.step()

    def _on_new_session(self) -> None:
        self._reload_wanted = self._reload is not None
        self._reruns.request()

    def run(self) -> None:
        """List, apply what is new, remove what is old."""
        if self._reload_wanted and self._reload is not None:
            self._reload_wanted = False
            try:
                self._reload()
            except Exception:
                self._reload_wanted = True
                raise
        numbered = [(sequence_of(name, self._prefix), name) for name in self._client.children(self._path)]
        names = sorted((number, name) for number, name in numbered if number is not None)
        self._apply_new([(number, name) for number, name in names if number not in self._made_ms])
        self._made_ms = {number: self._made_ms[number] for number, _ in names if number in self._made_ms}
        oldest_ms = self._clock.wall_ms() - CHANGE_EXPIRATION_MS
        outdated = [Delete(f"{self._path}/{name}") for number, name in names if self._made_ms[number] < oldest_ms]
        if outdated:
            self._client.session.submit(outdated)

    def _apply_new(self, names: list[tuple[int, str]]) -> None:
        found = self._client.read_all([f"{self._path}/{name}" for _, name in names])
        for (number, name), item in zip(names, found, strict=True):
            if item is None or item[0] is None:
                self._made_ms[number] = _NEVER_OLD  # removed by somebody else, or never a notification
                continue
            data, stat = item
            if number > self._last_applied:
                self._apply(name, data or b"")
                self._last_applied = number
            self._made_ms[number] = stat.ctime

    def _apply(self, name: str, data: bytes) -> None:
        try:
            self._process(data)
        except SessionExpiredError:
            raise  # it is not lost: the run of the next session comes to it again
        except Exception:
            logger.exception("Could not process change notification %s/%s", self._path, name)

    def _guarded_run(self) -> None:
        try:
            self.run()
        except SessionExpiredError:
            logger.info("Change notifications below %s wait for the new session", self._path)
