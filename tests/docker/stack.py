"""The compose cluster of docker/, driven as a person would."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.dev.processes import free_ports
from tests.docker.engine import Engine, compose_command
from tests.support.cluster import ROOT, python_environment
from tests.support.replication import IdempotentLoad, Reader

_names = itertools.count()
SERVICES = ("broker-0", "broker-1", "broker-2")

REPLICATION_FACTOR = int(
    next(
        line.partition("=")[2]
        for line in (ROOT / "docker" / ".env").read_text().splitlines()
        if line.startswith("REPLICATION_FACTOR=")
    )
)


class Stack:
    """One compose project with ports of its own."""

    def __init__(
        self,
        engine: Engine,
        *,
        base_image: str,
        zookeeper_image: str,
        files: tuple[str, ...] = (),
        begins_with: str = "docker-compose.yml",
        kafka_image: str | None = None,
        security_directory: Path | None = None,
    ) -> None:
        self.engine = engine
        self.project = f"odradek-test-{next(_names)}"
        self.ports = free_ports(3)
        self.files = (begins_with, *files)
        self.variables = {
            "COMPOSE_PROJECT_NAME": self.project,
            "BASE_IMAGE": base_image,
            "PIP_ARGS": "--no-index",
            "ODRADEK_IMAGE": "odradek-test",
            "ZOOKEEPER_IMAGE": zookeeper_image,
            "SPARK_BASE_IMAGE": base_image,
            "SPARK_IMAGE": "odradek-test-spark",
            **({"SECURITY_DIRECTORY": str(security_directory)} if security_directory else {}),
            **({"KAFKA_IMAGE": kafka_image} if kafka_image else {}),
            **{f"PORT_{n}": str(port) for n, port in enumerate(self.ports)},
        }

    @property
    def bootstrap(self) -> str:
        """Addresses as seen from the host."""
        return ",".join(f"localhost:{port}" for port in self.ports)

    def compose(self, *arguments: str, check: bool = True, timeout_s: float = 600) -> str:
        """Run docker-compose on the project."""
        files = [item for name in self.files for item in ("-f", str(ROOT / "docker" / name))]
        with _environment(self.engine, self.variables):
            return self.engine.run(*compose_command(), *files, *arguments, check=check, timeout_s=timeout_s).stdout

    def container(self, service: str) -> str:
        """Id of a service's container."""
        return self.compose("ps", "-q", service).strip()

    def up(self) -> None:
        """Build, start, and wait until every broker serves and the internal topics can be made."""
        self.compose("up", "-d", "--build")
        self.wait(3)

    def wait(self, brokers: int) -> None:
        """Until so many brokers serve; failures show the containers' logs."""
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "broker.dev.wait",
                "--brokers",
                str(brokers),
                "--bootstrap-server",
                self.bootstrap,
                "--timeout-ms",
                "120000",
            ],
            env={**self.engine.environment, **python_environment()},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        if done.returncode:
            logs = self.compose("logs", "--tail", "40", check=False)
            raise AssertionError(f"{done.stderr}\n{self.compose('ps', check=False)}\n{logs[-12000:]}")

    def replace(self, *options: str) -> None:
        """As `make cluster-upgrade` and `make cluster-migration` do: build, and replace brokers one by one."""
        self.files = ("docker-compose.yml",)
        self.compose("build", "broker-0")
        files = [item for name in self.files for item in ("-f", str(ROOT / "docker" / name))]
        with _environment(self.engine, {**self.variables, **python_environment()}):
            rolling = [sys.executable, "-m", "broker.dev.rolling", "-b", self.bootstrap, *options]
            self.engine.run(*rolling, "--", *compose_command(), *files)

    def inspect(self, service: str) -> dict[str, Any]:
        """What the engine says of a service's container."""
        found: list[dict[str, Any]] = json.loads(self.engine.run("docker", "inspect", self.container(service)).stdout)
        return found[0]

    def health(self, service: str) -> str:
        """What its health check has said: starting, healthy, unhealthy."""
        return str(self.inspect(service)["State"]["Health"]["Status"])

    def logs(self, service: str) -> str:
        """What a service's container has said."""
        done = self.engine.run("docker", "logs", self.container(service))
        return done.stdout + done.stderr

    def down(self) -> None:
        """Containers, network and volumes go."""
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "30", check=False)

    def left_behind(self) -> str:
        """Containers, volumes and networks of the project that are still there."""
        label = f"label=com.docker.compose.project={self.project}"
        return "".join(
            self.engine.run("docker", *kind, "--filter", label).stdout
            for kind in (("ps", "-aq"), ("volume", "ls", "-q"), ("network", "ls", "-q"))
        )

    def exec(self, service: str, *command: str, stdin: str | None = None) -> str:
        """Run a command inside a broker's container."""
        done = subprocess.run(
            ["docker", "exec", "-i", self.container(service), *command],
            env=self.engine.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command} in {service}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def image_bytes(self, service: str) -> int:
        """Size of the image of a service beyond its base image."""
        sizes = [
            int(self.engine.run("docker", "image", "inspect", "--format", "{{.Size}}", image).stdout)
            for image in (
                self.engine.run("docker", "inspect", "--format", "{{.Image}}", self.container(service)).stdout.strip(),
                self.variables["BASE_IMAGE"],
            )
        ]
        return sizes[0] - sizes[1]

    def spark(self, *arguments: str) -> str:
        """Build the Spark image and run a job of spark_jobs in its container; what it printed."""
        self.files = (*self.files, "docker-compose.spark.yml")
        self.compose("build", "spark", timeout_s=900)
        return self.compose("run", "--rm", "-T", "spark", *arguments, timeout_s=300)

    # --- what a client on the host does ---

    def create_topic(self, name: str, **config: str) -> None:
        """Three partitions, replicas as the cluster's own setting says."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_topics([NewTopic(name, 3, REPLICATION_FACTOR, config=config)]).values():
            future.result(30)

    def producer(self) -> Producer:
        """Idempotent, acks=all, patient enough for a restart of every broker."""
        return Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "delivery.timeout.ms": 180_000,
                "linger.ms": 20,
                "log_level": 2,
            }
        )

    def read_all(self, topic: str) -> dict[int, list[bytes]]:
        """Every record of the topic, by partition, in order."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"reader-{self.project}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 2,
            }
        )
        found: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        try:
            ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), 60)[1] for p in found}
            left = {p for p, end in ends.items() if end > 0}
            consumer.assign([TopicPartition(topic, p, 0) for p in left])
            while left:
                message = consumer.poll(60)
                assert message is not None, f"no record from {left} of {ends}"
                assert message.error() is None, message.error()
                found[message.partition()].append(message.value())  # type: ignore[index, arg-type]
                if message.offset() == ends[message.partition()] - 1:  # type: ignore[index]
                    left.discard(message.partition())
        finally:
            consumer.close()
        return found


class Load:
    """Records numbered by partition; remembers which were acknowledged."""

    def __init__(self, stack: Stack, topic: str) -> None:
        self._producer = stack.producer()
        self._topic = topic
        self.acknowledged: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        self.failures: list[str] = []
        self._number = 0

    def send(self, count: int) -> None:
        """Queue records and serve callbacks."""
        for _ in range(count):
            partition = self._number % 3
            value = f"{self._number:08d}".encode()
            self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
            self._number += 1
            self._producer.poll(0)

    def finish_if_replicated(self) -> None:
        """While a broker is away: without replicas its partitions wait for it, so only later can all be finished."""
        if REPLICATION_FACTOR > 1:
            self.finish()

    def finish(self) -> None:
        """Wait for every acknowledgement."""
        left = self._producer.flush(180)
        assert left == 0, f"{left} records without answer"
        assert self.failures == []

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged[message.partition()].append(message.value())


@contextlib.contextmanager
def _environment(engine: Engine, variables: dict[str, str]) -> Any:
    before = engine.environment
    engine.environment = {**before, **variables}
    try:
        yield
    finally:
        engine.environment = before


@contextlib.contextmanager
def busy(stack: Stack, topic: str) -> Iterator[None]:
    """One writes with acks=all and one reads, all the time; nothing acknowledged is lost or moves."""
    load, reader = IdempotentLoad(stack.bootstrap, topic, 3), Reader(stack.bootstrap, topic, 3)
    try:
        load.wait_progress()
        yield
        load.wait_progress()
    finally:
        load.finish()
    read = stack.read_all(topic)
    load.check(read)
    reader.finish(read)
