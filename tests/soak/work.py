"""What goes on all the time: records in and out, groups that come and go, topics made and deleted, cleaning."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from confluent_kafka import Consumer, Producer

from network.protocol.errors import ErrorCode
from network.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from network.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.cluster import Cluster
from tests.support.replication import QUIET

STEADY, KEYED = "steady", "keyed"
_RATE_PAUSE_S = 0.02


class Work:
    """Threads; `close` ends them and raises what one of them has ended by."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self._failed: list[BaseException] = []
        self.done: dict[str, int] = {}
        self._make(STEADY, {"retention.ms": "60000", "segment.bytes": "1000000"})
        self._make(KEYED, {"cleanup.policy": "compact", "segment.bytes": "500000", "min.cleanable.dirty.ratio": "0.1"})
        tasks = (self._produce, self._consume, self._come_and_go, self._topics)
        self._threads = [threading.Thread(target=self._run, args=(task,), daemon=True) for task in tasks]
        for thread in self._threads:
            thread.start()

    def _run(self, task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            self._failed.append(error)

    def _count(self, name: str, count: int = 1) -> None:
        self.done[name] = self.done.get(name, 0) + count

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        self.check()

    def check(self) -> None:
        """Raise what one of them has ended by: a soak without its work says nothing."""
        if self._failed:
            raise self._failed[0]

    def _make(self, name: str, configs: dict[str, str]) -> None:
        entries = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
        topic = CreatableTopic(name=name, num_partitions=3, replication_factor=1, configs=entries)
        with self._cluster.client() as client:
            client.call_controller(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        self._cluster.wait_topic(name, 3)

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "linger.ms": 5, **QUIET})
        for number in itertools.count():
            if self._stop.is_set():
                break
            for _ in range(10):
                producer.produce(STEADY, b"x" * 500)
                producer.produce(KEYED, b"y" * 200, key=b"%d" % (number % 500))
            producer.poll(0)
            self._count("records", 20)
            self._stop.wait(_RATE_PAUSE_S)
        producer.flush(30)

    def _consumer(self, group: str) -> Consumer:
        settings = {"group.id": group, "auto.offset.reset": "latest"}
        consumer = Consumer({"bootstrap.servers": self._cluster.bootstrap, **settings, **QUIET})
        consumer.subscribe([STEADY, KEYED])
        return consumer

    def _consume(self) -> None:
        consumer = self._consumer("soak-steady")
        while not self._stop.is_set():
            self._count("read", len(consumer.consume(500, 0.5)))
        consumer.close()

    def _come_and_go(self) -> None:
        """The same few names, so that what a group leaves behind by right stays as much."""
        for number in itertools.count():
            if self._stop.wait(1):
                return
            consumer = self._consumer(f"soak-{number % 5}")
            consumer.consume(100, 5)
            consumer.close()
            self._count("groups")

    def _topics(self) -> None:
        for number in itertools.count():
            if self._stop.wait(3):
                return
            name = f"passing-{number}"
            topic = CreatableTopic(name=name, num_partitions=3, replication_factor=1)
            with self._cluster.client() as client:
                made = client.call_controller(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
                deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000)
                gone = client.call_controller(deletion)
            codes = [each.error_code for each in (*made.topics, *gone.responses)]
            assert codes == [ErrorCode.NONE, ErrorCode.NONE], f"{name}: {codes}"
            self._count("topics")
