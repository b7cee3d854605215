"""Consume, transform, produce exactly once, while brokers, coordinators and workers are killed. About 90 seconds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.clients.offsets import committed_offsets
from tests.cluster.eos_worker import FENCED, STUCK
from tests.support.cluster import ROOT, Cluster, python_environment
from tests.support.coordinators import GROUP, TRANSACTION, Moves, eventually, wait_internal_topic
from tests.support.replication import QUIET, IdempotentLoad, create_topic, leader_of, read_back, wait_in_sync
from tests.support.suspend import suspend
from tests.support.transactions import read_committed, states, wait_none_open

ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
PARTITIONS = range(len(ASSIGNMENT))
WORKERS = ("worker-0", "worker-1")
GROUP_ID = "copiers"
TOPICS = ("source", "target", "bank")
SETTINGS = {
    "zookeeper.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "4000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class WorkerProcess:
    """A worker, and what it has told."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.committed: list[str] = []
        self.aborted: list[str] = []
        self.told: list[str] = []
        command = [sys.executable, "-m", "tests.cluster.eos_worker", "--bootstrap", cluster.bootstrap]
        command += ["--id", transactional_id, "--group", GROUP_ID, "--accounts", str(len(PARTITIONS))]
        for topic in TOPICS:
            command += [f"--{topic}", topic]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **python_environment()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            if "committed" in event:
                self.committed.append(event["committed"])
            else:
                self.told = [*self.told[-20:], line.rstrip()]
                if "aborted" in event:
                    self.aborted.append(event["aborted"])

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, timeout_s: float = 120) -> int:
        code = self.process.wait(timeout_s)
        self._thread.join(5)
        return code

    def __repr__(self) -> str:
        return f"{self.transactional_id} ({self.process.poll()}): {len(self.committed)} committed, {self.told[-5:]}"


class Follower:
    """A read_committed consumer at work all the time: what it is given must be how the partition ends up."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.read: dict[int, list[tuple[int, bytes]]] = {number: [] for number in PARTITIONS}
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"follower-{topic}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                **QUIET,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in PARTITIONS])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    self.read[message.partition()].append((message.offset(), message.value()))  # type: ignore[index, arg-type]

    def finish(self) -> dict[int, list[tuple[int, bytes]]]:
        self._stop.set()
        self._thread.join(10)
        self._consumer.close()
        return self.read


class Pipeline:
    """A source with a producer, the workers, and followers of what they write."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.load = IdempotentLoad(cluster.bootstrap, "source", len(PARTITIONS), interval_s=0.1)
        self.source: dict[int, list[bytes]] = {}
        self.workers: list[WorkerProcess] = []
        self.active = {name: self.start(name) for name in WORKERS}
        self.followers = {topic: Follower(cluster.bootstrap, topic) for topic in ("target", "bank")}

    def start(self, transactional_id: str) -> WorkerProcess:
        worker = WorkerProcess(self._cluster, transactional_id)
        self.workers.append(worker)
        return worker

    def wait_progress(self) -> None:
        """Until offsets are committed in every partition for records that were written after this call."""
        targets = {("source", number): len(done) + 1 for number, done in self.load.acknowledged.items()}

        def progressed() -> bool:
            self.restart_stuck()
            found = committed_offsets(self._cluster, GROUP_ID)
            return all(found.get(name, 0) >= target for name, target in targets.items())

        eventually(progressed, lambda: f"{committed_offsets(self._cluster, GROUP_ID)} below {targets}: {self.workers}")
        for worker in self.active.values():
            assert worker.process.poll() in (None, STUCK), worker

    def wait_transactions(self, count: int) -> None:
        """Until so many have been committed, on however slow a machine."""

        def committed() -> bool:
            self.restart_stuck()
            return sum(len(worker.committed) for worker in self.workers) >= count

        eventually(committed, lambda: f"{self.workers}")

    def restart_stuck(self) -> None:
        """What a supervisor does."""
        for name, worker in self.active.items():
            if worker.process.poll() == STUCK:
                self.active[name] = self.start(name)

    def finish(self) -> None:
        """Let everything be copied, then stop."""
        self.load.finish()
        self.source = read_back(self._cluster, "source", len(PARTITIONS))
        self.load.check(self.source)
        ends = {("source", number): len(done) for number, done in self.source.items()}

        def copied() -> bool:
            self.restart_stuck()
            return committed_offsets(self._cluster, GROUP_ID) == ends

        eventually(
            copied,
            lambda: f"{committed_offsets(self._cluster, GROUP_ID)} of {ends}: {self.workers}",
        )
        for worker in self.active.values():
            worker.signal(signal.SIGTERM)
        for worker in self.active.values():
            assert worker.wait() in (0, STUCK), worker

    def stop(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.wait()


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = make_cluster(["odradek"] * 3, settings=SETTINGS)
    for topic in TOPICS:
        create_topic(cluster, topic, ASSIGNMENT)
    for key_type in (GROUP, TRANSACTION):
        wait_internal_topic(cluster, key_type)
    return cluster


@pytest.fixture
def pipeline(cluster: Cluster) -> Iterator[Pipeline]:
    made = Pipeline(cluster)
    try:
        yield made
    finally:
        made.stop()


def test_each_record_is_copied_once(cluster: Cluster, pipeline: Pipeline) -> None:
    pipeline.wait_progress()
    _lose_brokers(cluster, pipeline)
    _lose_workers(pipeline)
    pipeline.wait_transactions(60)
    pipeline.finish()
    for topic in TOPICS:
        wait_in_sync(cluster, topic)
        wait_none_open(cluster, topic, PARTITIONS)
    wait_none_open(cluster, "__consumer_offsets", range(3))
    # The markers are there; that they are, the coordinator writes down last.
    eventually(
        lambda: set(states(cluster, WORKERS).values()) <= {"CompleteCommit", "CompleteAbort", "Empty"},
        lambda: states(cluster, WORKERS),
    )
    _check_history(cluster, pipeline)


def _lose_brokers(cluster: Cluster, pipeline: Pipeline) -> None:
    for key, key_type in ((WORKERS[0], TRANSACTION), (GROUP_ID, GROUP)):
        moves = Moves(cluster, key, key_type)
        moves.away("killed")
        pipeline.wait_progress()
        moves.restore()
        for topic in TOPICS:
            wait_in_sync(cluster, topic)
        pipeline.wait_progress()
    leader = cluster.brokers[leader_of(cluster, "target")]
    assert leader.stop() == 0
    pipeline.wait_progress()
    leader.start()
    cluster.wait_ready()
    for topic in TOPICS:
        wait_in_sync(cluster, topic)
    # Back to where its coordinator was before the kill.
    if moves.coordinator.broker_id != moves.preferred:
        moves.away("elected")
        pipeline.wait_progress()


def _lose_workers(pipeline: Pipeline) -> None:
    # One dies in the middle of its work, and comes back.
    crashed = pipeline.active[WORKERS[1]]
    crashed.signal(signal.SIGKILL)
    crashed.wait()
    pipeline.active[WORKERS[1]] = pipeline.start(WORKERS[1])
    pipeline.wait_progress()
    # One is frozen, has an heir, and wakes up as a zombie.
    zombie = pipeline.active[WORKERS[0]]
    suspend(zombie.process.pid)
    pipeline.active[WORKERS[0]] = pipeline.start(WORKERS[0])
    pipeline.wait_progress()
    zombie.signal(signal.SIGCONT)
    assert zombie.wait() == FENCED, zombie
    pipeline.wait_progress()


def _check_history(cluster: Cluster, pipeline: Pipeline) -> None:
    """Copies in the order of their source, without gap; whole transactions only; no coin made or lost."""
    target = read_committed(cluster.bootstrap, "target", PARTITIONS)
    bank = read_committed(cluster.bootstrap, "bank", PARTITIONS)
    copies: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    for number, messages in target.items():
        source = list(enumerate(pipeline.source[number]))
        fields = [message.value().decode().split("|") for message in messages]
        assert [(int(offset), value.encode()) for _, _, offset, value in fields] == source, number
        copies.update(transaction for transaction, *_ in fields)
        sizes.update((transaction, int(size)) for transaction, size, *_ in fields)
    assert copies == sizes
    coins: dict[str, list[int]] = {}
    for messages in bank.values():
        for message in messages:
            transaction, coin = message.value().decode().split("|")
            coins.setdefault(transaction, []).append(int(coin))
    assert set(coins) == set(sizes)
    assert all(sorted(moved) == [-1, 1] for moved in coins.values())
    told = {transaction for worker in pipeline.workers for transaction in worker.committed}
    assert told <= set(sizes)
    assert not set(sizes) & {transaction for worker in pipeline.workers for transaction in worker.aborted}
    assert len(sizes) > 50
    for topic, final in (("target", target), ("bank", bank)):
        for number, got in pipeline.followers[topic].finish().items():
            expected = [(message.offset(), message.value()) for message in final[number]]
            assert got == expected[: len(got)], f"{topic}-{number} was read differently before"
