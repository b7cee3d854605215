"""What brokers wrote to ZooKeeper is a history, too: who may lead follows from it alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.zk import paths
from controller.zk.ops import Create, Delete, SetData, WriteOp
from controller.zk.payloads import PartitionState, ReplicaAssignment, decode_partition_state, decode_topic
from tests.simulation.real.history import History
from tests.simulation.zookeeper import ZooKeeperModel

_LEFT_OVERS = (paths.DELETE_TOPICS, paths.ISR_CHANGES, paths.LOG_DIR_EVENTS)
_ORDERS = (paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION)


class Znodes:
    """`check` looks at what was written since the last time: after every step of the simulation."""

    def __init__(self, zookeeper: ZooKeeperModel, history: History, now_ns: Callable[[], int]) -> None:
        self._zookeeper = zookeeper
        self._history = history
        self._now_ns = now_ns
        self._checked = 0
        self._controller_epoch = 0
        self.states: dict[str, PartitionState] = {}
        self.tenures: dict[str, list[tuple[int, int]]] = {}
        """Since when (ns) who has led, by the path of the state."""
        self._assignments: dict[str, Mapping[int, ReplicaAssignment]] = {}

    def check(self) -> None:
        writes = self._zookeeper.writes
        while self._checked < len(writes):
            _, op = writes[self._checked]
            self._checked += 1
            if isinstance(op, SetData) and op.path == paths.CONTROLLER_EPOCH:
                epoch = int(op.data or b"0")
                if epoch != self._controller_epoch + 1:
                    self._history.broken(f"the controller's epoch went from {self._controller_epoch} to {epoch}")
                self._controller_epoch = epoch
            elif op.path.rpartition("/")[0] == paths.TOPICS:
                self._check_assignment(op)
            elif op.path.endswith("/state"):
                if isinstance(op, Delete):
                    self.states.pop(op.path, None)
                elif isinstance(op, SetData | Create):
                    state = decode_partition_state(op.data, 0)
                    assert state is not None
                    self._check_state(op.path, self.states.get(op.path), state)
                    self.states[op.path] = state
                    led = self.tenures.setdefault(op.path, [])
                    if state.leader >= 0 and (not led or led[-1][1] != state.leader):
                        led.append((self._now_ns(), state.leader))

    def _check_assignment(self, op: WriteOp) -> None:
        """A move is complete once all that were added are in sync."""
        name = op.path.rpartition("/")[2]
        before = self._assignments.pop(op.path, {})
        if not isinstance(op, SetData | Create):
            return
        now = self._assignments[op.path] = decode_topic(name, op.data).assignment
        for partition, entry in now.items():
            was = before.get(partition)
            if was is None or not was.adding or entry.being_reassigned or entry.replicas != was.target:
                continue
            state = self.states.get(f"{op.path}/partitions/{partition}/state")
            if state is None or not set(was.adding) <= set(state.isr):
                self._history.broken(f"{name}-{partition} has moved to {entry.replicas} with {state}")

    def _check_state(self, path: str, before: PartitionState | None, state: PartitionState) -> None:
        def broken(what: str) -> None:
            self._history.broken(f"{what}: {path} was {before} and became {state}")

        if state.controller_epoch < self._controller_epoch:
            broken("a controller of an old epoch wrote")
        if not state.isr:
            broken("nobody is left in the ISR")
        if state.leader >= 0 and state.leader not in state.isr:
            broken("the leader is not in sync")
        if before is None:
            return
        if state.leader_epoch < before.leader_epoch:
            broken("the leader's epoch went back")
        if state.leader not in (before.leader, -1):
            if state.leader not in before.isr:
                broken("a leader was elected that was not in sync")
            if state.leader_epoch == before.leader_epoch:
                broken("a new leader leads in the epoch of another")
        if state.leader_epoch > before.leader_epoch and not set(state.isr) <= set(before.isr):
            broken("an election made somebody a member of the ISR")

    def check_end(self) -> None:
        """Nothing is left of what was under way, and orders that were answered are carried out."""
        nodes, history = self._zookeeper.nodes, self._history
        for path in nodes:
            parent = path.rpartition("/")[0]
            if parent in _LEFT_OVERS or path in _ORDERS:
                history.broken(f"{path} is left over")
        topics = {
            path.removeprefix(f"{paths.TOPICS}/"): decode_topic(path.rpartition("/")[2], node.data)
            for path, node in nodes.items()
            if path.rpartition("/")[0] == paths.TOPICS
        }
        for name, partitions in history.topics.items():
            there = len(topics[name].assignment) if name in topics else 0
            if name not in history.unsure and there != partitions:
                history.broken(f"{name} shall have {partitions} partitions and has {there}")
            if name not in history.unsure and there == 0 and f"/config/topics/{name}" in nodes:
                history.broken(f"{name} is gone, and its configuration is not")
        for (topic, partition), replicas in history.moved.items():
            found = list(topics[topic].assignment[partition].replicas)
            if (topic, partition) not in history.unsure and found != replicas:
                history.broken(f"{topic}-{partition} shall be on {replicas} and is on {found}")

    def unrest(self) -> str | None:
        """What is still under way; None if nothing is."""
        nodes = self._zookeeper.nodes
        for path, node in nodes.items():
            parent, _, name = path.rpartition("/")
            if parent in _LEFT_OVERS or path in _ORDERS:
                return f"{path} is there"
            if parent != paths.TOPICS:
                continue
            for partition, entry in decode_topic(name, node.data).assignment.items():
                state = self.states.get(f"{path}/partitions/{partition}/state")
                if entry.being_reassigned:
                    return f"{name}-{partition} moves: {entry}"
                if state is None or state.leader < 0 or set(state.isr) != set(entry.replicas):
                    return f"{name}-{partition}, assigned {entry.replicas}, is {state}"
        return None

    def replicas(self, topic: str, partition: int) -> tuple[int, ...]:
        """Those that are assigned; none if the topic is not there."""
        node = self._zookeeper.nodes.get(paths.topic(topic))
        entry = None if node is None else decode_topic(topic, node.data).assignment.get(partition)
        return () if entry is None else entry.replicas
