"""Who is gone leaves the ISR at once, by the controller: nobody waits `replica.lag.time.max.ms` for it."""

from __future__ import annotations

from controller.zk import paths
from controller.zk.payloads import decode_controller
from tests.simulation.real.brokers import ZOOKEEPER, Cluster
from tests.simulation.real.history import History
from tests.simulation.real.znodes import Znodes

LOOK_MS = 100
CALM_MS = 3_000
"""A new controller reads all there is first, and each question may take a hundred milliseconds."""
LONGEST_MS = 1_200
"""Less than leaders take to notice by themselves (`replica.lag.time.max.ms`, and half of it)."""


class Absences:
    """`check` looks now and then: brokers without a session, while there is a controller that nothing disturbs."""

    def __init__(self, cluster: Cluster, znodes: Znodes, history: History) -> None:
        self._cluster = cluster
        self._znodes = znodes
        self._history = history
        self._looked_ms = 0
        self._gone: dict[int, int] = {}
        self._controller: object = None
        self._calm_ms = 0

    def check(self) -> None:
        now = self._cluster.runtime.now_ms()
        if now - self._looked_ms < LOOK_MS:
            return
        self._looked_ms = now
        nodes = self._cluster.zookeeper.nodes
        for number in self._cluster.brokers:
            if f"/brokers/ids/{number}" in nodes:
                self._gone.pop(number, None)
            else:
                self._gone.setdefault(number, now)
        if (controller := self._undisturbed()) is None or controller is not self._controller:
            self._controller, self._calm_ms = controller, now
            return
        for number, since in self._gone.items():
            if now - since >= LONGEST_MS and now - self._calm_ms >= CALM_MS:
                self._check_isrs(number)

    def _undisturbed(self) -> object:
        """Which process is controller, None while something is in its way."""
        cluster = self._cluster
        node = cluster.zookeeper.nodes.get(paths.CONTROLLER)
        found = None if node is None else decode_controller(node.data)
        if found is None:
            return None
        broker = cluster.brokers[found.broker_id]
        cut = {(broker.host, ZOOKEEPER), (ZOOKEEPER, broker.host)} & cluster.net.cut
        hears = broker.serving and not broker.process.paused and not cluster.net.watch_delay_ms.get(broker.host)
        return node if hears and not cut else None

    def _check_isrs(self, number: int) -> None:
        for path, state in self._znodes.states.items():
            if number in state.isr and len(state.isr) > 1:
                self._history.broken(f"broker {number} has been gone for {LONGEST_MS} ms, and {path} is {state}")
