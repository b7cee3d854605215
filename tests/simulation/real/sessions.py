"""A broker's ZooKeeper session in the simulation: the embedded server's state machine behind a slow, cuttable way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from controller.zk.ops import Request, Response
from controller.zk.session import SessionExpiredError
from tests.simulation.real.network import Net
from tests.simulation.real.runtime import Process
from tests.simulation.real.threads import Condition
from tests.simulation.zookeeper import ModelSession, ZooKeeperModel

ZOOKEEPER = "zookeeper"
_LOOK_MS = 20


class SimSession(ModelSession):
    """Like `KazooSession`: requests wait while the way to the server is cut, are sent again when an answer was lost
    (so each may be applied twice), and fail once the session is gone; then a thread of its own makes a new one."""

    def __init__(
        self, net: Net, process: Process, server: ZooKeeperModel, timeout_ms: int, loss: Callable[[], float]
    ) -> None:
        self._net = net
        self._process = process
        self._model = server
        self._timeout_ms = timeout_ms
        self._loss = loss
        self._renewing = False
        self._heard_ms = net.runtime.now_ms()
        self._wire = Condition()
        super().__init__(server)
        self.events = Events(self)
        net.runtime.after(_LOOK_MS, self._look)

    def start(self) -> None: ...

    @property
    def is_connected(self) -> bool:
        return not self._is_cut()

    def _is_cut(self) -> bool:
        name = self._process.name
        return self._net.is_cut(name, ZOOKEEPER) or self._net.is_cut(ZOOKEEPER, name)

    def _look(self) -> None:
        """The server hears of the client, or gives its session up; the client, if it can hear, learns of that."""
        owner, process = self._net.runtime, self._process
        if owner.over or self._closed:
            return
        now = owner.now_ms()
        reachable = process.alive and not process.paused and not self._is_cut()
        if reachable and not self.expired:
            self._heard_ms = now
        elif now - self._heard_ms >= self._timeout_ms:
            self._model.expire(self.session_id)
        if not process.alive and self.expired:
            return
        if reachable and self.expired and not self._renewing:
            self._renewing = True
            owner.spawn(process, self._renew, "zk-session-expiry-handler")
        owner.after(_LOOK_MS, self._look)

    def _renew(self) -> None:
        self._handlers.before_new_session()
        self.events.clear()
        self._heard_ms = self._net.runtime.now_ms()
        self._session_id = self._model.open(self)
        self._handlers.after_new_session()
        self._renewing = False

    def submit(self, requests: Sequence[Request]) -> list[Response]:
        owner = self._net.runtime
        belongs_to = self.session_id
        owner.sleep(self._net.delay())
        answers: list[Response] = []
        for request in requests:
            while self._is_cut() and not self._closed and not self.expired:
                owner.sleep(_LOOK_MS)
            if self._closed or self.expired or self.session_id != belongs_to:
                raise SessionExpiredError
            if owner.rng.random() < self._loss():
                self._apply(request)
                owner.sleep(self._net.delay())
                if self.expired or self.session_id != belongs_to:
                    raise SessionExpiredError
            answers.append(self._apply(request))
        owner.sleep(self._net.delay())
        return answers


class Events(deque[Any]):
    """Watch events on their way: each is handed over on a thread of the client's process, in order."""

    def __init__(self, session: SimSession) -> None:
        super().__init__()
        self._session = session
        self._delivering = False

    def append(self, event: Any) -> None:
        super().append(event)
        if not self._delivering and self._session._process.alive:
            self._delivering = True
            self._session._net.runtime.spawn(self._session._process, self._deliver, "zk-watches")

    def _deliver(self) -> None:
        session = self._session
        owner = session._net.runtime
        while self:
            owner.sleep(session._net.delay() + session._net.watch_delay_ms.get(session._process.name, 0))
            if session._is_cut():
                owner.sleep(_LOOK_MS)
            elif self:
                session._handlers.fire(*self.popleft())
        self._delivering = False
