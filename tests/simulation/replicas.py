"""Real replicas in one process: logs on disk, partitions, ISR changes and fetchers of three brokers, under one seed.

Each broker is what a real one has, from `RoleChanges` down to the segments, but for sockets, clients and threads: a
fetcher's `step` is called when the seed says so, its leader is asked directly, and while an answer is under way other
things happen. A process that is killed leaves its files as they are.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from broker.cluster.metadata_cache import MetadataCache
from broker.config.kafka_config import KafkaConfig
from broker.metrics import MetricsRegistry
from broker.replication import partition_reads
from broker.replication.become_leader_or_follower import RoleChanges
from broker.replication.follower.fetcher import FailedPartitions, FollowerSide, ReplicaFetcher
from broker.replication.follower.fetcher_manager import FetcherManager
from broker.replication.isr.alter_partition import AlterPartitionManager
from broker.replication.metrics import ReplicaMetrics
from broker.replication.partition import Partition
from broker.replication.partitions import Partitions
from broker.replication.replica_manager import ReplicaManager
from broker.replication.replica_traffic import ReplicaTraffic
from broker.replication.results import EpochEndOffset, FetchParams, FetchPartitionData, LogReadResult
from broker.replication.throttle import ReplicationThrottles
from broker.requests.action_queue import ActionQueue
from log.config import LogConfig
from log.fetch_data import FetchIsolation
from log.management.manager import LogManager
from log.management.manager_settings import LogManagerSettings
from log.records.validation import AppendOrigin
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages import fetch as messages
from network.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tests.simulation.cluster import InvariantBroken
from tests.simulation.controller_model import TOPIC_ID, TP, ControllerModel
from tests.unit.log.harness import batch, contents
from timer.chance import SeededChance
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler

Answer = tuple[Callable[[AlterPartitionResponse], None], AlterPartitionResponse]
LAG_MS = 3_000
BACKOFF_MS = 100
# Several fetches for what is appended in one go.
PARTITION_MAX_BYTES = 150


class NobodyWaits:
    """`DelayedOperations` of a broker without clients."""

    num_delete_records = 0

    def check_all(self, _: TopicPartition) -> None: ...

    check_produce_and_fetch = check_all

    def check_fetches_of(self, follower: object) -> None: ...

    def is_watched(self, _: TopicPartition) -> bool:
        return False


class SteppedFetcher(ReplicaFetcher):
    """Has no thread."""

    def start(self) -> None: ...

    def shutdown(self) -> None: ...


class Leader:
    """A follower's `LeaderEndpoint`: asks the other node at once; then, before the answer is back, things happen."""

    def __init__(self, sim: Replicas, follower: Node, leader: int) -> None:
        self._sim = sim
        self._follower = follower
        self._leader = leader

    def fetch(
        self, wanted: Mapping[TopicPartition, FetchPartitionData], changed: object
    ) -> dict[TopicPartition, messages.PartitionData]:
        params = FetchParams(17, self._follower.id, -1, 0, 1, 1 << 20, FetchIsolation.LOG_END)
        entries = list(wanted.items())
        results: list[tuple[TopicPartition, LogReadResult]] = []
        self._manager().fetch_messages(params, entries, results.extend)
        answers = {tp: _answer(result) for tp, result in results}
        self._on_the_way_back()
        return answers

    def offset(self, tp: TopicPartition, timestamp: int, current_leader_epoch: int) -> int:
        found = partition_reads.offset_for_timestamp(
            self._partition(tp), timestamp, None, current_leader_epoch, self._follower.id
        )
        assert found is not None
        self._on_the_way_back()
        return found.offset

    def epoch_end_offsets(
        self, asked: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, EpochEndOffset | ErrorCode]:
        answers: dict[TopicPartition, EpochEndOffset | ErrorCode] = {}
        for tp, (current, epoch) in asked.items():
            try:
                answers[tp] = partition_reads.epoch_end_offset(self._partition(tp), current, epoch, require_leader=True)
            except ApiError as error:
                answers[tp] = error.code
        self._on_the_way_back()
        return answers

    def close(self) -> None: ...

    def _manager(self) -> ReplicaManager:
        leader = self._sim.nodes[self._leader]
        if not leader.up or self._sim.chance_of(0.03):
            raise ConnectionError("no connection")
        return leader.manager

    def _partition(self, tp: TopicPartition) -> Partition:
        return self._manager().partitions.get_or_raise(tp)

    def _on_the_way_back(self) -> None:
        incarnation = self._follower.incarnation
        self._sim.meanwhile()
        if not self._follower.up or self._follower.incarnation != incarnation or self._sim.chance_of(0.03):
            raise ConnectionError("the answer is lost")


def _answer(result: LogReadResult) -> messages.PartitionData:
    answer = messages.PartitionData(
        error_code=result.error,
        high_watermark=result.high_watermark,
        log_start_offset=result.log_start_offset,
        records=b"" if result.records is None else result.records.read(),
    )
    if result.diverging_epoch is not None:
        epoch, end_offset = result.diverging_epoch
        answer.diverging_epoch = messages.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    result.release()
    return answer


class Node:
    """One broker. Its directory outlives its process, everything else does not."""

    def __init__(self, sim: Replicas, number: int, directory: Path) -> None:
        self.sim = sim
        self.id = number
        self.directory = str(directory / f"broker-{number}")
        self.up = False
        self.cut_off = False
        """From the controller; the other brokers still reach it."""
        self.is_fetching = False
        self.incarnation = 0
        self.epoch = -1
        self.inbox: deque[Any] = deque()
        self.asked: tuple[Callable[[int], AlterPartitionRequest], Callable[[AlterPartitionResponse], None]] | None
        self.answered: deque[Answer] = deque()

    def start(self) -> None:
        sim, clock = self.sim, self.sim.clock
        self.incarnation += 1
        self.up, self.cut_off, self.asked = True, False, None
        config = KafkaConfig(
            {
                "broker.id": str(self.id),
                "zookeeper.connect": "none",
                "log.dirs": self.directory,
                "replica.lag.time.max.ms": str(LAG_MS),
                "replica.fetch.wait.max.ms": "100",
                "inter.broker.protocol.version": sim.version,
            }
        )
        self.scheduler = ManualScheduler(clock)
        self.scheduler.startup()
        self.log_manager = LogManager(
            [self.directory],
            default_config=LogConfig(),
            topic_configs=lambda topic: {},
            broker_id=self.id,
            cluster_id="cluster",
            clock=clock,
            scheduler=self.scheduler,
            chance=sim.chance,
            settings=LogManagerSettings(cleaner_enabled=False),
        )
        self.log_manager.startup()
        metrics = MetricsRegistry()
        self.cache = MetadataCache(self.id)
        partitions = Partitions(self.cache.contains)
        replica_metrics = ReplicaMetrics(metrics, partitions.has_topic)
        traffic = ReplicaTraffic(partitions, ReplicationThrottles(config, clock, metrics), replica_metrics)
        side = FollowerSide(partitions, traffic, config.version, lambda tp: None)
        failed = FailedPartitions()
        self.fetchers: dict[int, SteppedFetcher] = {}

        def make(fetcher_id: Any, _: Any) -> SteppedFetcher:
            leader = fetcher_id.leader_id
            self.fetchers[leader] = fetcher = SteppedFetcher(
                f"{self.id} from {leader}", Leader(sim, self, leader), side, failed, clock, BACKOFF_MS,
                PARTITION_MAX_BYTES,
            )  # fmt: skip
            return fetcher

        self.manager = ReplicaManager(
            config,
            clock=clock,
            scheduler=self.scheduler,
            log_manager=self.log_manager,
            metadata_cache=self.cache,
            delayed=NobodyWaits(),  # type: ignore[arg-type]
            alter_partition=AlterPartitionManager(
                self.id, lambda: self.epoch, {TOPIC_ID: TP.topic}.get, self, self.scheduler
            ),
            partitions=partitions,
            traffic=traffic,
            fetchers=FetcherManager(1, make, failed, metrics),
            selector=None,
            replica_metrics=replica_metrics,
            metrics=metrics,
            action_queue=ActionQueue(),
        )
        self.manager.startup()
        self.epoch = sim.controller.register(self.id)

    def kill(self) -> None:
        """The process ends where it stands; its session goes on for a while."""
        self.up = False
        self.inbox.clear()
        self.answered.clear()
        for log in self.log_manager.all_logs():
            log.close_handles()
        for log_dir in self.log_manager._live.values():
            log_dir.unlock(remove=False)

    def send(
        self,
        api: Any,
        build: Callable[[int], AlterPartitionRequest],
        callback: Callable[[AlterPartitionResponse], None],
        max_version: int | None = None,
    ) -> None:
        """The channel to the controller: sends again until there is an answer."""
        self.asked = (build, callback)

    def obey(self) -> None:
        request = self.inbox.popleft()
        if hasattr(request, "live_brokers"):
            self.cache.update(request, 8)
            self.manager.on_brokers_gone()
        else:
            RoleChanges(self.manager).become_leader_or_follower(request, 7, lambda leaders, followers: None)

    @property
    def partition(self) -> Partition | None:
        return self.manager.partitions.get(TP) if self.up else None


class Replicas:
    """Three nodes and a controller; `step` does one thing that the seed chooses, and checks the invariants."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.rng = random.Random(seed)
        self.chance = SeededChance(seed)
        self.clock = ManualClock()
        # The one truncates on what a fetch answers, the other asks for the ends of epochs first.
        self.version = self.rng.choice(["3.9", "3.9", "2.6"])
        # How fast the controller's words come, and its answers; and how many of these are lost.
        self._delivery, self._answers = self.rng.choice([14, 14, 6]), self.rng.choice([8, 2])
        self._lost = self.rng.choice([0.2, 0.5])
        self.controller = ControllerModel((1, 2, 3))
        self.nodes = {number: Node(self, number, directory) for number in (1, 2, 3)}
        self.committed: list[bytes] = []
        self.trace: deque[str] = deque(maxlen=60)
        self.faults = True
        self._value = 0
        self._depth = 0
        self._seen: dict[int, tuple[Any, list[bytes]]] = {}
        for node in self.nodes.values():
            node.start()
        self._tell()

    # -- what happens --------------------------------------------------------------------------------------------------

    def step(self) -> None:
        actions: list[tuple[int, Callable[[Node], None]]] = [
            (30, self._fetch),
            (14 if self.faults else 0, self._append),
            (self._delivery, self._deliver),
            (10, self._ask),
            (self._answers, self._answer),
            (10, self._tick),
        ]
        if self.faults:
            actions += [
                (2, self._kill),
                (3, self._restart),
                (2, self._cut_off),
                (3, self._end_session),
                (2, self._move),
            ]
        [action] = self.rng.choices([each for _, each in actions], [weight for weight, _ in actions])
        node = self.nodes[self.rng.randint(1, 3)]
        self.trace.append(f"{action.__name__[1:]} {node.id}")
        action(node)
        self.check()

    def meanwhile(self) -> None:
        """While an answer is under way."""
        if self._depth == 0 and self.chance_of(0.3):
            self._depth += 1
            for _ in range(self.rng.randint(1, 6)):
                self.step()
            self._depth -= 1

    def chance_of(self, probability: float) -> bool:
        return self.faults and self.rng.random() < probability

    def _fetch(self, node: Node) -> None:
        if node.up and not node.is_fetching:
            node.is_fetching = True
            for fetcher in list(node.fetchers.values()):
                fetcher.step()
            node.is_fetching = False

    def _append(self, node: Node) -> None:
        """A client produces where it believes the leader to be."""
        partition = node.partition
        if partition is not None and partition.is_leader:
            for _ in range(self.rng.randint(1, 3)):
                self._value += 1
                partition.append_as_leader(batch(b"%d" % self._value), AppendOrigin.CLIENT, 1)

    def _deliver(self, node: Node) -> None:
        if node.up and not node.cut_off and node.inbox:
            node.obey()

    def _ask(self, node: Node) -> None:
        """The AlterPartition request reaches the controller; its answer may be lost, then it is sent again."""
        if node.up and not node.cut_off and node.asked is not None:
            build, callback = node.asked
            before = self.controller.state
            response = self.controller.alter_partition(build(3))
            if not self.chance_of(self._lost):
                node.asked = None
                node.answered.append((callback, response))
            if self.controller.state != before:
                self.trace.append(f"  {self.controller.state}")

    def _answer(self, node: Node) -> None:
        if node.up and node.answered:
            callback, response = node.answered.popleft()
            callback(response)

    def _tick(self, _: Node) -> None:
        self.clock.advance(self.rng.choice([20, 150, 700, 1_600]))
        for node in self.nodes.values():
            if node.up:
                node.scheduler.tick()

    def _kill(self, node: Node) -> None:
        if node.up:
            node.kill()

    def _restart(self, node: Node) -> None:
        if not node.up and node.id not in self.controller.live:
            node.start()
            self._tell()
        elif node.cut_off and node.id not in self.controller.live:
            node.cut_off = False
            node.epoch = self.controller.register(node.id)
            self._tell()

    def _cut_off(self, node: Node) -> None:
        node.cut_off = node.up

    def _end_session(self, node: Node) -> None:
        if node.id in self.controller.live and (not node.up or node.cut_off):
            self.controller.session_ended(node.id)
            node.inbox.clear()
            self._tell()

    def _move(self, node: Node) -> None:
        self.controller.move(node.id)
        self._tell()

    def _tell(self) -> None:
        self.trace.append(f"  {self.controller.state} live {sorted(self.controller.live)}")
        for broker in self.controller.live:
            self.nodes[broker].inbox += [self.controller.metadata(), self.controller.leader_and_isr()]

    # -- what must be true ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        held = [
            (node, partition, partition.log.high_watermark, self._values(node, partition))
            for node in self.nodes.values()
            if (partition := node.partition) is not None and partition.log is not None
        ]
        for _, partition, high_watermark, values in held:
            if partition.is_leader and high_watermark > len(self.committed):
                self.committed += values[len(self.committed) : high_watermark]
        for node, _, high_watermark, values in held:
            if values[:high_watermark] != self.committed[:high_watermark]:
                raise InvariantBroken(f"broker {node.id} shows other records than were committed: {self.where()}")
            if node.id in self.controller.state.isr and values[: len(self.committed)] != self.committed:
                raise InvariantBroken(f"broker {node.id} is in the ISR without all that is committed: {self.where()}")

    def _values(self, node: Node, partition: Partition) -> list[bytes]:
        log = partition.log
        assert log is not None
        version = (node.incarnation, partition.truncations, log.log_end_offset)
        known = self._seen.get(node.id)
        if known is None or known[0] != version:
            values = [value or b"" for _, value in contents(log)]
            known = self._seen[node.id] = (version, values)
        return known[1]

    def where(self) -> str:
        """For a message."""
        replicas = []
        for node in self.nodes.values():
            partition = node.partition
            if partition is not None and partition.log is not None:
                log = partition.log
                replicas.append(
                    f"{node.id}: leader {partition.leader_id} epoch {partition.leader_epoch} {partition.isr_state!r} "
                    f"high watermark {log.high_watermark} end {log.log_end_offset}"
                )
        return f"{self.controller.state}, committed {len(self.committed)}, {replicas}"

    def heal(self) -> None:
        """End all faults: everybody must come into the ISR, with the same log."""
        self.faults = False
        for node in self.nodes.values():
            if not node.up or node.cut_off:
                self._end_session(node)
        for node in self.nodes.values():
            self._restart(node)
            node.cut_off = False
        # A newer leader epoch for whoever waits for the controller's word.
        self.controller.move(self.controller.state.leader)
        self._tell()
        for _ in range(4_000):
            self.step()
            if self._is_at_rest():
                return
        raise InvariantBroken(f"no rest: {self.where()}")

    def _is_at_rest(self) -> bool:
        partitions = [node.partition for node in self.nodes.values()]
        logs = [partition.log for partition in partitions if partition is not None and partition.log is not None]
        return (
            set(self.controller.state.isr) == {1, 2, 3}
            and len({(log.log_end_offset, log.high_watermark) for log in logs}) == 1
            and len(self.committed) == logs[0].log_end_offset
            and all(self._values(node, node.partition) == self.committed for node in self.nodes.values())  # type: ignore[arg-type]
        )

    def close(self) -> None:
        for node in self.nodes.values():
            if node.up:
                node.kill()
