"""``make run``: a whole cluster, used once through a client library that is not ours, and stopped again."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from broker.cli.errors import CommandError, MissingPrerequisiteError
from broker.dev.cluster import REPLICATION_FACTOR, DevCluster
from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper
from timer.clock import SystemClock

TOPIC = "odradek-demo"
LINES = 12
BROKERS = 3


def main() -> None:
    """Start, create, produce, consume, show, stop. Exit code 1 with one line when something is missing or wrong."""
    try:
        with tempfile.TemporaryDirectory(prefix="odradek-run-") as directory:
            run(Path(directory))
    except CommandError as error:
        click.echo(f"odradek: {error}", err=True)
        sys.exit(error.exit_code)


def run(directory: Path) -> None:
    """The demonstration, with all files below ``directory``."""
    try:
        import confluent_kafka
    except ImportError:
        raise MissingPrerequisiteError("the demo uses confluent-kafka: pip install confluent-kafka") from None
    clock = SystemClock()
    started = clock.monotonic_ms()
    ports = free_ports(BROKERS + 1)
    server = EmbeddedZooKeeper(None, ports[-1], directory / "zookeeper.log")
    cluster = None
    try:
        cluster = DevCluster(ports[:-1], directory, server.connect, clock)
        cluster.start()
        taken = clock.monotonic_ms() - started
        click.echo(f"ZooKeeper and {BROKERS} brokers serve on {cluster.bootstrap} after {taken} ms")
        try:
            use(confluent_kafka, cluster.bootstrap)
        except confluent_kafka.KafkaException as error:
            cluster.check()
            raise CommandError(f"the client failed: {error}") from error
    finally:
        if cluster is not None:
            cluster.stop()
        server.stop()
    click.echo(f"everything stopped after {clock.monotonic_ms() - started} ms; nothing is left behind")


def use(confluent_kafka: Any, bootstrap: str) -> None:
    """Create a topic, produce lines with keys, read them back and show them. Raises CommandError on a difference."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    replicas = min(BROKERS, REPLICATION_FACTOR)
    for future in admin.create_topics([NewTopic(TOPIC, num_partitions=BROKERS, replication_factor=replicas)]).values():
        future.result(30)
    click.echo(f"topic {TOPIC}: {BROKERS} partitions, one led by each broker, replication factor {replicas}")
    wanted = {f"line {number}": f"key-{number % 4}" for number in range(LINES)}
    # A client that connects to a cluster of seconds ago sees a retry or two; they are no news here.
    quiet = {"bootstrap.servers": bootstrap, "log_level": 2}
    producer = confluent_kafka.Producer({**quiet, "acks": "all", "enable.idempotence": True})
    for value, key in wanted.items():
        producer.produce(TOPIC, value, key)
    if producer.flush(30):
        raise CommandError("not every record was acknowledged within 30 s")
    click.echo(f"produced {LINES} records with acks=all (librdkafka {confluent_kafka.libversion()[0]})")
    consumer = confluent_kafka.Consumer({**quiet, "group.id": "odradek-demo", "auto.offset.reset": "earliest"})
    found: dict[str, str] = {}
    try:
        consumer.subscribe([TOPIC])
        for message in iter(lambda: consumer.poll(15), None):
            if message.error():
                raise CommandError(f"consuming failed: {message.error()}")
            found[message.value().decode()] = message.key().decode()
            place = f"{message.topic()}-{message.partition()}@{message.offset()}"
            click.echo(f"  {place}  {message.key().decode()} = {message.value().decode()}")
            if len(found) == LINES:
                break
    finally:
        consumer.close()
    if found != wanted:
        raise CommandError(f"{len(found)} of {LINES} records came back")
    click.echo(f"consumed all {LINES} records in a consumer group, each once")


if __name__ == "__main__":
    main()
