"""A cluster in one process: real controllers on the model of ZooKeeper, model brokers, a faulty network, one seed."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from broker.config.versions import MetadataVersion
from controller.config import ControllerConfig
from controller.controller import Controller
from controller.election_requests import ElectionType
from controller.zk.access import ControllerMovedError
from controller.zk.admin import AdminZkClient
from controller.zk.client import ZkClient
from controller.zk.ops import Create, Delete, SetData
from controller.zk.payloads import BrokerInfo, EndPoint, decode_partition_state
from controller.zk.session import ZkError
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError
from network.protocol.messages.alter_partition import AlterPartitionRequest
from network.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from network.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from tests.simulation.broker_model import BrokerModel, Record
from tests.simulation.zookeeper import ModelSession, ZooKeeperModel
from timer.chance import SeededChance
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler

_LOST = object()


class InvariantBroken(AssertionError):
    """What must never be true was true."""


@dataclass
class _Queued:
    request: Any
    callback: Callable[[Any], None] | None


class SimChannels:
    """`BrokerChannels` as queues that the simulation empties when it likes."""

    def __init__(self) -> None:
        self.queues: dict[int, deque[_Queued]] = {}

    def start(self, brokers: Iterable[BrokerInfo]) -> None:
        for broker in brokers:
            self.add_broker(broker)

    def add_broker(self, broker: BrokerInfo) -> None:
        self.queues.setdefault(broker.id, deque())

    def remove_broker(self, broker_id: int) -> None:
        self.queues.pop(broker_id, None)

    def send(self, broker_id: int, request: Any, version: int, callback: Callable[[Any], None] | None) -> None:
        if broker_id in self.queues:
            self.queues[broker_id].append(_Queued(request, callback))

    def shutdown(self) -> None:
        self.queues.clear()


class Node:
    """One process: a broker, its controller and their ZooKeeper session."""

    def __init__(self, sim: Simulation, node_id: int) -> None:
        self.sim = sim
        self.id = node_id
        self.broker = BrokerModel(node_id)
        self.paused = False
        self.up = False
        self.session: ModelSession
        self.controller: Controller
        self.channels: SimChannels
        self.scheduler: ManualScheduler
        # AlterPartition requests on their way to the controller, with the partition.
        self.asked: deque[tuple[TopicPartition, AlterPartitionRequest]] = deque()
        # The sending that may still be answered, and by which controller.
        self.in_flight: tuple[object, Controller] | None = None

    @property
    def running(self) -> bool:
        return self.up and not self.paused

    def start(self) -> None:
        """Start the process; it may fail because its last session still owns the id."""
        sim = self.sim
        session = ModelSession(sim.server, sim.loses_answer)
        zk = ZkClient(session)
        info = BrokerInfo(self.id, (EndPoint("PLAINTEXT", "h", self.id, "PLAINTEXT"),))
        config = ControllerConfig(self.id, MetadataVersion("3.9"))
        try:
            zk.create_startup_paths()
            epoch = zk.register_broker(info, config.registration_json_version, sim.clock.wall_ms())
        except ZkError:
            session.close()
            return
        self.session = session
        self.channels = SimChannels()
        self.scheduler = ManualScheduler(sim.clock)
        self.scheduler.startup()
        self.controller = Controller(
            info,
            zk,
            self.channels,
            sim.clock,
            self.scheduler,
            config,
            chance=sim.chance,
            on_new_broker_epoch=self._registered_again,
        )
        self.asked.clear()
        self.in_flight = None
        self.broker.start(epoch)
        self.up, self.paused = True, False
        self.controller.startup(own_thread=False)

    def _registered_again(self, epoch: int) -> None:
        self.broker.epoch = epoch

    def crash(self) -> None:
        """The process ends; its session stays until the server gives it up."""
        self.up = False
        self.broker.crash()

    def work(self) -> bool:
        """One step of the process's own threads; False if there is nothing to do."""
        if not self.running:
            return False
        if self.session.expired:
            self.session.renew()
            return True
        rng = self.sim.rng
        both: tuple[Callable[[], bool], ...] = (self.session.deliver, lambda: self.controller.step() is not None)
        first, second = both
        if rng.random() < 0.5:
            first, second = second, first
        return first() or second()


class Simulation:
    """Nodes, the server and the network; `step` does one thing chosen by the seed, and checks the invariants."""

    def __init__(self, seed: int, nodes: int = 4, faults: bool = True) -> None:
        self.rng = random.Random(seed)
        # The product's own draws, apart from those of the schedule.
        self.chance = SeededChance(seed)
        self.clock = ManualClock()
        self.server = ZooKeeperModel(self.clock)
        self.faults = faults
        self.committed: dict[tuple[TopicPartition, bytes], list[Record]] = {}
        self.deleted: set[bytes] = set()
        self.trace: deque[str] = deque(maxlen=60)
        self._checked_writes = 0
        self._leader_epochs: dict[tuple[TopicPartition, bytes], dict[int, int]] = {}
        self._controller_epoch = 0
        self.nodes = [Node(self, number) for number in range(1, nodes + 1)]
        for node in self.nodes:
            node.start()

    def loses_answer(self) -> bool:
        return self.faults and self.rng.random() < 0.02

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        action, weight = zip(*self._actions(), strict=True)
        chosen = self.rng.choices(action, weight)[0]
        self.trace.append(chosen.__name__)
        chosen()
        self.check()

    def _actions(self) -> list[tuple[Callable[[], object], float]]:
        actions: list[tuple[Callable[[], object], float]] = [
            (self.some_node_works, 40),
            (self.deliver_request, 25),
            (self.produce, 12),
            (self.fetch, 40),
            (self.change_isr, 2),
            (self.deliver_alter_partition, 8),
            (self.pass_time, 2),
        ]
        if self.faults:
            actions += [
                (self.crash_or_start, 1.2),
                (self.pause_or_resume, 0.6),
                (self.expire_somebody, 0.8),
                (self.delete_controller, 0.1),
                (self.operate, 3),
            ]
        return actions

    def some_node_works(self) -> bool:
        return self.rng.choice(self.nodes).work()

    def deliver_request(self) -> None:
        """The head of one controller's queue reaches its broker; the answer may be lost, then it is sent again."""
        ways = [
            (node, broker, queue)
            for node in self.nodes
            if node.running
            for broker, queue in sorted(node.channels.queues.items())
            if queue
        ]
        if not ways:
            return
        node, broker_id, queue = self.rng.choice(ways)
        target = self.nodes[broker_id - 1]
        if not target.running:
            return
        queued = queue[0]
        response = target.broker.handle(queued.request)
        if self.faults and self.rng.random() < 0.1:
            return
        queue.popleft()
        self.trace.append(f"  {type(queued.request).__name__} of {node.id} to {broker_id}")
        if queued.callback is not None:
            queued.callback(response)

    def _led(self) -> list[tuple[Node, TopicPartition]]:
        return [
            (node, partition)
            for node in self.nodes
            if node.running
            for partition, replica in sorted(node.broker.replicas.items())
            if replica.leader == node.id
        ]

    def produce(self) -> None:
        led = self._led()
        if led:
            node, partition = self.rng.choice(led)
            node.broker.append(partition)
            self._advance(node, partition)

    def _advance(self, node: Node, partition: TopicPartition) -> None:
        replica = node.broker.replicas[partition]
        key = (partition, replica.topic_id)
        known, now = self.committed.get(key, []), node.broker.advance(replica)
        if now[: len(known)] != known[: len(now)]:
            raise InvariantBroken(f"leader {node.id} commits other records of {partition} than were committed before")
        if len(now) > len(known):
            self.committed[key] = now

    def fetch(self) -> None:
        """One follower fetches once from whom it takes for the leader."""
        followers = [
            (node, partition)
            for node in self.nodes
            if node.running
            for partition, replica in sorted(node.broker.replicas.items())
            if replica.leader not in (-1, node.id)
        ]
        if not followers:
            return
        node, partition = self.rng.choice(followers)
        replica = node.broker.replicas[partition]
        leader = self.nodes[replica.leader - 1]
        if not leader.running:
            return
        records = leader.broker.serve_fetch(partition, node.id, replica.leader_epoch, replica.log)
        if records is None:
            return
        common = len(leader.broker.replicas[partition].log) - len(records)
        del replica.log[common:]
        replica.log.extend(records[: self.rng.randint(0, len(records))])
        self._advance(leader, partition)
        wish = leader.broker.expanded_isr(partition, node.id)
        if wish is not None:
            leader.asked.append((partition, leader.broker.alter_partition(partition, wish)))

    def change_isr(self) -> None:
        led = self._led()
        if not led:
            return
        node, partition = self.rng.choice(led)
        wish = node.broker.shrunk_isr(partition)
        if self.faults and wish is not None:
            node.asked.append((partition, node.broker.alter_partition(partition, wish)))

    def deliver_alter_partition(self) -> None:
        asking = [node for node in self.nodes if node.running and node.asked]
        if not asking:
            return
        node = self.rng.choice(asking)
        controller = node.broker.controller_id
        target = self.nodes[controller - 1] if controller > 0 else None
        if target is None or not target.running:
            return
        if node.in_flight is not None:
            waits = node.in_flight[1] is target.controller and node.in_flight[0] is not _LOST
            if waits and not (self.faults and self.rng.random() < 0.1):
                return
            # The connection broke, or the controller is another one: the same request is sent again, and no answer
            # to the first sending can arrive any more.
        else:
            node.asked.rotate(-1)
        partition, request = entry = node.asked[-1]
        request.broker_epoch = node.broker.epoch
        node.in_flight = sending = (object(), target.controller)

        def answered(response: Any) -> None:
            if not node.up or node.in_flight is not sending:
                return
            if self.faults and self.rng.random() < 0.1:
                node.in_flight = (_LOST, target.controller)
                return
            node.in_flight = None
            if entry not in node.asked or not node.broker.isr_answered(partition, request, response):
                return
            node.asked.remove(entry)
            if partition in node.broker.replicas and node.broker.replicas[partition].leader == node.id:
                self._advance(node, partition)

        target.controller.alter_partition(request, 3, answered)

    def pass_time(self) -> None:
        self.clock.advance(self.rng.choice((100, 5000, 60_000)))
        for node in self.nodes:
            if node.running:
                node.scheduler.tick()

    # -- faults and operators ------------------------------------------------------------------------------------------

    def crash_or_start(self) -> None:
        down = [node for node in self.nodes if not node.up]
        if down and self.rng.random() < 0.7:
            self.server.expire(down[0].session.session_id)
            down[0].start()
            return
        node = self.rng.choice(self.nodes)
        if not node.up:
            node.start()
        elif sum(other.running for other in self.nodes) > 2:
            self.trace.append(f"  crash of {node.id}")
            node.crash()

    def pause_or_resume(self) -> None:
        paused = [node for node in self.nodes if node.paused]
        if paused and self.rng.random() < 0.7:
            paused[0].paused = False
        elif sum(other.running for other in self.nodes) > 2:
            self.rng.choice([node for node in self.nodes if node.up]).paused = True

    def expire_somebody(self) -> None:
        """The server gives a session up: of a dead or paused process, or of one that is cut off."""
        node = self.rng.choice(self.nodes)
        self.trace.append(f"  expiry of {node.id}")
        self.server.expire(node.session.session_id)

    def delete_controller(self) -> None:
        if "/controller" in self.server.nodes:
            self.server.apply(0, Delete("/controller"), watch=False)

    def operate(self) -> None:
        """Somebody uses the admin client, on any node."""
        node = self.rng.choice(self.nodes)
        if not node.running or node.session.expired:
            return
        rng, admin = self.rng, AdminZkClient(ZkClient(node.session), chance=self.chance)
        topic = rng.choice(("a", "b", "c"))
        replicas = rng.sample(range(1, len(self.nodes) + 1), 3)
        kind = rng.choice((0, 0, 1, 2, 2, 2, 2, 3, 4, 5))
        try:
            if kind == 0:
                admin.create_topic(topic, {0: replicas, 1: replicas[::-1]})
            elif kind == 1 and rng.random() < 0.3 and not self._is_moving(topic):
                admin.delete_topic(topic)
            elif kind == 2:
                request = AlterPartitionReassignmentsRequest(
                    topics=[
                        ReassignableTopic(
                            name=topic,
                            partitions=[
                                ReassignablePartition(
                                    partition_index=0, replicas=rng.choice((None, replicas, replicas[:2]))
                                )
                            ],
                        )
                    ]
                )
                node.controller.alter_partition_reassignments(request, lambda _: None)
            elif kind == 3:
                node.controller.elect_leaders(
                    [TopicPartition(topic, 0), TopicPartition(topic, 1)], ElectionType.PREFERRED, lambda _: None
                )
            elif kind == 4:
                self._shut_down(rng.choice(self.nodes), node.controller)
            else:
                admin.add_partitions(topic, 3, dict.fromkeys(range(1, 5)), [replicas])
        except (ApiError, ZkError, ControllerMovedError):
            pass

    def _is_moving(self, topic: str) -> bool:
        """A topic that is deleted while it moves, and loses its leaders then, is stuck: as with Kafka's controller."""
        znode = ZkClient(ModelSession(self.server)).topic(topic)
        return znode is not None and any(entry.being_reassigned for entry in znode.assignment.values())

    def _shut_down(self, leaving: Node, controller: Controller) -> None:
        """A broker asks to leave, and ends its session once it may."""

        def answered(response: Any) -> None:
            if leaving.running and not response.error_code:
                leaving.crash()
                self.server.expire(leaving.session.session_id)
                if not self.faults:
                    leaving.start()

        if sum(other.running for other in self.nodes) > 2:
            request = ControlledShutdownRequest(broker_id=leaving.id, broker_epoch=leaving.broker.epoch)
            controller.controlled_shutdown(request, answered)

    # -- invariants ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        self._check_writes()
        self._check_leaders()

    def _check_writes(self) -> None:
        """Every applied write: epochs only grow, and committed records are in every log of a written ISR."""
        writes = self.server.writes
        while self._checked_writes < len(writes):
            _, op = writes[self._checked_writes]
            self._checked_writes += 1
            if isinstance(op, SetData) and op.path == "/controller_epoch":
                epoch = int(op.data or b"0")
                if epoch != self._controller_epoch + 1:
                    raise InvariantBroken(f"controller epoch went from {self._controller_epoch} to {epoch}")
                self._controller_epoch = epoch
            if isinstance(op, SetData | Create) and op.path.endswith("/state"):
                state = decode_partition_state(op.data, 0)
                assert state is not None
                if state.controller_epoch < self._controller_epoch:
                    raise InvariantBroken(f"a controller of an old epoch wrote {op.path}: {state}")

    def _check_leaders(self) -> None:
        """At most one leader an epoch; whoever leads with the newest epoch has every committed record."""
        newest: dict[tuple[TopicPartition, bytes], tuple[int, Node]] = {}
        for node in self.nodes:
            if not node.up:
                continue
            for partition, replica in node.broker.replicas.items():
                if replica.leader != node.id:
                    continue
                key = (partition, replica.topic_id)
                leader = self._leader_epochs.setdefault(key, {}).setdefault(replica.leader_epoch, node.id)
                if leader != node.id:
                    raise InvariantBroken(f"{leader} and {node.id} both lead {partition} in {replica.leader_epoch}")
                if key not in newest or newest[key][0] < replica.leader_epoch:
                    newest[key] = (replica.leader_epoch, node)
        for (partition, topic_id), (epoch, node) in newest.items():
            if epoch < max(self._leader_epochs[(partition, topic_id)]):
                continue  # a newer leader is down: this one is a zombie and may lack what that one committed
            log = node.broker.replicas[partition].log
            committed = self.committed.get((partition, topic_id), [])
            if log[: len(committed)] != committed:
                raise InvariantBroken(f"leader {node.id} of {partition} in epoch {epoch} lost committed records")

    # -- coming to rest ------------------------------------------------------------------------------------------------

    def heal(self, rounds: int = 60) -> None:
        """End all faults and let everything that is under way come to its end, then check the whole."""
        self.faults = False
        for node in self.nodes:
            node.paused = False
            if not node.up:
                self.server.expire(node.session.session_id)
                node.start()
        for _ in range(rounds):
            for node in self.nodes:
                for _ in range(100):
                    if not node.work():
                        break
            for _ in range(300):
                self.deliver_request()
                self.fetch()
                self.change_isr()
                self.deliver_alter_partition()
                self.some_node_works()
            self.check()
            if not self.unrest():
                return
        raise InvariantBroken(f"no rest: {self.unrest()}")

    def unrest(self) -> str | None:
        """What is not yet as it must be when nothing fails any more; None at rest."""
        if any(node.session.expired for node in self.nodes):
            return "expired sessions"
        active = [node for node in self.nodes if node.controller.is_active]
        if len(active) != 1:
            return f"controllers: {[node.id for node in active]}"
        controller = active[0].controller
        context = controller.context
        zk = ZkClient(active[0].session)
        if sorted(context.brokers) != [node.id for node in self.nodes]:
            return f"brokers known: {sorted(context.brokers)}"
        stuck = self._stuck(controller)
        reassigning = {partition for partition in context.reassigning if partition.topic not in stuck}
        if context.topics_to_delete - stuck or reassigning or zk.topics_to_delete() - stuck:
            return f"deleting {context.topics_to_delete}, reassigning {context.reassigning}"
        if context.topics != zk.topic_names():
            return f"topics known {context.topics}"
        whole = [partition for partition in context.all_partitions() if partition.topic not in stuck]
        for partition in whole:
            problem = self._partition_unrest(controller, zk, partition)
            if problem is not None:
                return f"{partition}: {problem}"
        hosted = {(node.id, partition) for node in self.nodes for partition in node.broker.replicas}
        # Who has been asked to leave, and never left, hears of no new topic.
        staying = [(broker, item) for item in whole for broker in context.replicas(item)]
        wanted = {each for each in staying if each[0] not in context.shutting_down}
        if not wanted <= hosted:
            return f"replicas missing on brokers: {sorted(wanted - hosted)}"
        return None

    def _stuck(self, controller: Controller) -> set[str]:
        """Topics as in `_is_moving` whose move began between the look and the request to delete them."""
        context = controller.context
        return {
            partition.topic
            for partition in context.reassigning
            if partition.topic in context.topics_to_delete and context.leadership[partition].leader == -1
        }

    def _partition_unrest(self, controller: Controller, zk: ZkClient, partition: TopicPartition) -> str | None:
        context = controller.context
        state = zk.partition_states([partition]).get(partition)
        if state is None or context.leadership.get(partition) != state:
            return f"ZooKeeper {state} and memory {context.leadership.get(partition)}"
        if state.leader == -1:
            return f"no leader: {state}"
        if context.shutting_down:
            return None  # asked to leave by an operator and never left: it cannot come back into an ISR
        if set(state.isr) != set(context.replicas(partition)):
            return f"ISR {state.isr}, assigned {context.replicas(partition)}"
        logs = []
        for broker in state.isr:
            replica = self.nodes[broker - 1].broker.replicas.get(partition)
            if replica is None or (replica.leader, replica.leader_epoch) != (state.leader, state.leader_epoch):
                return f"broker {broker} is at {replica and (replica.leader, replica.leader_epoch)}, not {state}"
            logs.append(replica.log)
        if any(log != logs[0] for log in logs):
            return "logs differ"
        topic_id = context.topic_ids[partition.topic]
        committed = self.committed.get((partition, topic_id), [])
        if logs[0][: len(committed)] != committed:
            raise InvariantBroken(f"{partition} lost committed records at rest")
        return None
