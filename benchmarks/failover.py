"""Failover and topic creation on three brokers, Odradek and Apache Kafka in alternation.

    python -m benchmarks.failover [--quick] [--json] [--partitions 1000] [--rounds 3] [--targets odradek,kafka]

Measured: creating a topic of many partitions until every broker knows it; what memory a broker has then; one record
with acks=all on another topic, and the CPU of brokers that are asked nothing; a controller
failover (its znode removed, so that no session timeout is within it) until the new controller has made a topic that
every broker knows; from the kill of a leader to the first acknowledged record on its partition, and the part of that
after ZooKeeper ended the session, in which all partitions of the killed broker get other leaders; the start of that
broker until all know it; a controlled restart, from SIGTERM to serving; and, with a record in every partition, the
start of one killed broker and of all three at once, from the start of the processes (their sessions are over) until
every broker tells of every partition that all its replicas are in sync. Of Odradek's controller and leader failover
also, from the controller's log: the events of the controller that they are made of, and what of these was waiting for
answers of ZooKeeper.

Every wait is bounded, by a minute and more with more partitions; 5,000 are a few minutes a kind with `--rounds 1`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.clusters import running_comparable
from benchmarks.rounds import log, told
from benchmarks.targets import cpu_seconds, resident_mb
from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from broker.dev.zookeeper import ZooKeeperServer
from network.protocol.errors import ApiError, ErrorCode
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster, Kind
from tests.support.replication import partitions_of
from tests.support.zookeeper import zookeeper_client

SESSION_MS = 4000
RECORDS = 50
IDLE_S = 5.0
IDLE_SAMPLES, IDLE_FALLS = 24, 0.8
KINDS: tuple[Kind, ...] = ("odradek", "kafka")
METRICS = (
    "create", "broker_mb", "record_ms", "idle_cpu", "controller", "failover", "after_session", "stop", "restart",
    "fill", "crash", "crash_all",
)  # fmt: skip
# Of Odradek only.
OWN_METRICS = ("controller_events", "controller_zookeeper", "failover_events", "failover_zookeeper")
_TOLD = re.compile(r"(\w+) took ([\d.]+) ms, ([\d.]+) ms of it waiting for ZooKeeper")


def limit_s(partitions: int) -> float:
    """How long any one step may take: 90 s with 1,000 partitions, 330 s with 5,000."""
    return 30 + 0.06 * max(partitions, 500)


def wait(condition: Callable[[], bool], limit: float, what: str, interval_ms: int = 10) -> None:
    """Raises RuntimeError when `limit` seconds were not enough."""
    if not wait_until(condition, CLOCK, int(limit * 1000), interval_ms):
        raise RuntimeError(f"not within {limit:g} s: {what}")


class ControllerLog:
    """What Odradek's brokers tell from here on of the events that they process as controllers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._begin = {b.broker_id: b.log_file.stat().st_size for b in cluster.brokers}

    def seconds(self, *events: str) -> tuple[float, float]:
        """Of the present controller, once one of these events is over: in them, and in waiting for ZooKeeper."""
        with zookeeper_client(self._cluster.zookeeper) as zk:
            controller = self._cluster.brokers[json.loads(zk.get("/controller")[0])["brokerid"]]
        told: list[tuple[float, float]] = []

        def is_over() -> bool:
            with controller.log_file.open("rb") as file:
                file.seek(self._begin[controller.broker_id])
                lines = _TOLD.findall(file.read().decode(errors="replace"))
            told[:] = [(float(took), float(waited)) for name, took, waited in lines if name in events]
            return bool(told)

        wait(is_over, 30, f"{' or '.join(events)} in the log of broker {controller.broker_id}")
        return sum(took for took, _ in told) / 1000, sum(waited for _, waited in told) / 1000


def produce(cluster: Cluster, topic: str, limit: float) -> None:
    """One record with acks=all to partition 0, acknowledged by the leader that a living broker tells.

    Not with librdkafka: it looks for a lost leader once a second, which is more than what is measured.
    """

    def is_acknowledged() -> bool:
        living = {broker.broker_id: broker for broker in cluster.running}
        for broker in living.values():
            with contextlib.suppress(OSError, ApiError):
                leader = partitions_of(broker, topic)[0][0]
                if leader in living:
                    return wire.produce(living[leader], topic, wire.batch([b"x"])).error_code == ErrorCode.NONE
        return False

    wait(is_acknowledged, limit, f"a record for {topic} acknowledged")


def known_everywhere(cluster: Cluster, topic: str, partitions: int) -> bool:
    """Whether every broker tells a leader for each partition."""
    from confluent_kafka.admin import AdminClient

    for broker in cluster.running:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        found = admin.list_topics(timeout=30).topics.get(topic)
        if found is None or sum(entry.leader >= 0 for entry in found.partitions.values()) != partitions:
            return False
    return True


def record_ms(cluster: Cluster, topic: str) -> float:
    """Milliseconds of one record with acks=all beside all that is idle: the median of `RECORDS` in a row."""
    leader = cluster.brokers[partitions_of(cluster.brokers[0], topic)[0][0]]
    took = []
    for _ in range(RECORDS):
        began = time.monotonic()
        answer = wire.produce(leader, topic, wire.batch([b"x"]))
        took.append(time.monotonic() - began)
        if answer.error_code:
            raise RuntimeError(f"a record for {topic}: {ErrorCode.of(answer.error_code).name}")
        time.sleep(0.02)
    return statistics.median(took) * 1000


def idle_cpu(cluster: Cluster) -> float:
    """Seconds of CPU that all brokers together take each second while nobody asks them anything: the less of the first
    two samples in a row of which the second is not a fifth less, as the creation leaves much to be done behind it."""
    pids = [broker.process.pid for broker in cluster.running if broker.process is not None]

    def used() -> float:
        before = sum(map(cpu_seconds, pids))
        time.sleep(IDLE_S)
        return (sum(map(cpu_seconds, pids)) - before) / IDLE_S

    least = used()
    for _ in range(IDLE_SAMPLES):
        now = used()
        if now >= IDLE_FALLS * least:
            return min(now, least)
        least = now
    return least


def fill(cluster: Cluster, topic: str, partitions: int, limit: float) -> float:
    """Seconds that one record in each partition takes, acknowledged with acks=all, and until all replicas show it.

    librdkafka makes a request of each partition, and a broker serves those of a connection one after the other.
    """
    began = time.monotonic()
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    acknowledged: list[bool] = []
    limits = {"message.timeout.ms": int(limit * 1000), "queue.buffering.max.messages": partitions + 1}
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "linger.ms": 50, "acks": "all", **limits}
    )
    for partition in range(partitions):
        producer.produce(
            topic, b"x", partition=partition, on_delivery=lambda error, _: acknowledged.append(error is None)
        )
    producer.flush(limit)
    if sum(acknowledged) != partitions:
        raise RuntimeError(f"{sum(acknowledged)} of {partitions} records were acknowledged")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    latest = {TopicPartition(topic, partition): newest for partition in range(partitions)}

    def are_everywhere() -> bool:
        # What consumers may see is what all in-sync replicas have.
        return all(found.result(limit).offset > 0 for found in admin.list_offsets(latest).values())

    wait(are_everywhere, limit, "a record in every replica", 50)
    return time.monotonic() - began


def in_sync_everywhere(cluster: Cluster, topic: str, partitions: int) -> bool:
    """Whether every broker tells of each partition that it has a leader and all its replicas are in sync."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    for broker in cluster.running:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        try:
            found = admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
        except KafkaException:
            return False  # it does not serve yet
        if sum(entry.leader >= 0 and len(entry.isrs) == len(cluster.brokers) for entry in found) != partitions:
            return False
    return True


def crash(cluster: Cluster, brokers: list[Broker], topic: str, partitions: int, limit: float) -> float:
    """Seconds from the start of killed brokers until all is in sync."""
    for broker in brokers:
        broker.kill()
    for broker in brokers:
        broker.wait_forgotten()
    began = time.monotonic()
    for broker in brokers:
        broker.start()
    wait(lambda: in_sync_everywhere(cluster, topic, partitions), limit, "all in sync again", 50)
    return time.monotonic() - began


def measure_crashes(cluster: Cluster, broker: Broker, topic: str, partitions: int, limit: float) -> dict[str, float]:
    """One broker killed, then all."""
    wait(lambda: in_sync_everywhere(cluster, topic, partitions), limit, "all in sync", 50)
    filled = fill(cluster, topic, partitions, limit)
    one = crash(cluster, [broker], topic, partitions, limit)
    return {"fill": filled, "crash": one, "crash_all": crash(cluster, list(cluster.brokers), topic, partitions, limit)}


def controller_failover(cluster: Cluster, limit: float) -> float:
    """Seconds from the removal of `/controller` until a topic made after it is known everywhere."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    with zookeeper_client(cluster.zookeeper) as zk:
        began = time.monotonic()
        zk.delete("/controller")
        while True:
            # A new client each time: librdkafka goes on asking the controller that it knows.
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            try:
                admin.create_topics([NewTopic("after", 1, 3)], request_timeout=30)["after"].result(40)
                break
            except KafkaException as error:
                if time.monotonic() - began > limit:
                    raise RuntimeError(f"no controller makes a topic: {error}") from error
                time.sleep(0.01)
        wait(lambda: known_everywhere(cluster, "after", 1), limit, "a topic of one partition known everywhere")
        return time.monotonic() - began


def leader_failover(cluster: Cluster, leader: Broker, topic: str, limit: float) -> tuple[float, float]:
    """Seconds from the kill of the leader, and from the end of its session, to the first acknowledged record."""
    ended: list[float] = []
    with zookeeper_client(cluster.zookeeper) as zk:
        zk.exists(f"/brokers/ids/{leader.broker_id}", watch=lambda _: ended.append(time.monotonic()))
        leader.kill()
        began = time.monotonic()
        produce(cluster, topic, limit)
        done = time.monotonic()
    return done - began, done - ended[0]


def measure(kind: Kind, directory: Path, zookeeper: str, partitions: int, failures: dict[str, str]) -> dict[str, float]:
    """Seconds of each metric on a fresh cluster; if its last step fails, that is put into `failures`."""
    from confluent_kafka.admin import AdminClient, NewTopic

    limit = limit_s(partitions)
    own: dict[str, float] = {}
    settings = {"zookeeper.session.timeout.ms": str(SESSION_MS), "auto.leader.rebalance.enable": "false"}
    with running_comparable([kind] * 3, directory, zookeeper, settings) as cluster:
        patient = {"socket.timeout.ms": int(min(limit, 300) * 1000)}
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **patient})
        config = {"min.insync.replicas": "2"}
        admin.create_topics([NewTopic("small", 1, replica_assignment=[[2, 1, 0]], config=config)])["small"].result(60)
        produce(cluster, "small", limit)
        began = time.monotonic()
        many = NewTopic("many", partitions, 3)
        admin.create_topics([many], operation_timeout=limit, request_timeout=limit + 10)["many"].result(limit + 20)
        wait(lambda: known_everywhere(cluster, "many", partitions), limit, f"{partitions} partitions known", 50)
        create = time.monotonic() - began
        broker_mb = statistics.mean(resident_mb(b.process.pid) for b in cluster.brokers if b.process is not None)
        idle = {"record_ms": record_ms(cluster, "small"), "idle_cpu": idle_cpu(cluster)}
        events = ControllerLog(cluster)
        controller = controller_failover(cluster, limit)
        if kind == "odradek":
            own["controller_events"], own["controller_zookeeper"] = events.seconds("Reelect")
        leader = cluster.brokers[2]
        events = ControllerLog(cluster)
        failover, after_session = leader_failover(cluster, leader, "small", limit)
        if kind == "odradek":
            own["failover_events"], own["failover_zookeeper"] = events.seconds("BrokerChange", "Reelect")
        leader.wait_forgotten()
        leader.start()
        cluster.wait_ready()
        began = time.monotonic()
        assert leader.process is not None
        if leader.process.stop(limit) < 0:
            raise RuntimeError(f"no controlled shutdown within {limit:g} s")
        stop = time.monotonic() - began
        leader.start()
        cluster.wait_ready()
        restart = time.monotonic() - began
        try:
            crashes = measure_crashes(cluster, leader, "many", partitions, limit)
        except Exception as error:  # the last step: the figures before it stay
            failures[f"{kind}: start after a kill"] = told(error)
            crashes = {}
    return {
        "create": create,
        "broker_mb": broker_mb,
        "controller": controller,
        "failover": failover,
        "after_session": after_session,
        "stop": stop,
        "restart": restart,
        **idle,
        **crashes,
        **own,
    }


def measure_all(
    directory: Path, kinds: Sequence[Kind], partitions: int, rounds: int
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """The medians of each kind, and what of which kinds failed how."""
    found: dict[str, list[dict[str, float]]] = {}
    failures: dict[str, str] = {}
    server = ZooKeeperServer(directory / "zookeeper", free_ports(1)[0])
    try:
        server.wait_until_ready(CLOCK)
        for number in range(rounds):
            for kind in kinds:
                where = f"{kind}-{number}"
                began = time.monotonic()
                try:
                    run = measure(kind, directory / where, f"{server.connect}/{where}", partitions, failures)
                    found.setdefault(kind, []).append(run)
                except Exception as error:  # the other kind's figures stay
                    failures[kind] = told(error)
                log(f"round {number + 1} of {rounds}: {kind}, {time.monotonic() - began:.0f} s")
    finally:
        server.stop()
    medians = {
        kind: {
            metric: statistics.median(values)
            for metric in (*METRICS, *OWN_METRICS)
            if (values := [run[metric] for run in runs if metric in run])
        }
        for kind, runs in found.items()
    }
    return medians, failures


def show(medians: dict[str, dict[str, float]], partitions: int) -> None:
    """A table for docs/performance.md."""
    names = {
        "create": f"create {partitions} partitions, known everywhere, s",
        "broker_mb": "memory of a broker with a replica of each, MB",
        "record_ms": f"one record with acks=all beside {partitions} idle partitions, ms",
        "idle_cpu": "CPU of the idle brokers together, s each second",
        "fill": f"a record with acks=all in each of {partitions} partitions, s",
        "controller": f"controller failover with {partitions} partitions, until it has made a topic, s",
        "controller_events": "of that, the new controller taking over, s",
        "controller_zookeeper": "of that, waiting for ZooKeeper, s",
        "failover": f"leader killed to first acknowledged record, s (session {SESSION_MS / 1000:g} s)",
        "after_session": "of that, after the session ended, s",
        "failover_events": "of that, the controller electing leaders of all its partitions, s",
        "failover_zookeeper": "of that, waiting for ZooKeeper, s",
        "stop": "controlled shutdown, s",
        "restart": "controlled shutdown and start until all know it, s",
        "crash": "one broker started after a kill until all is in sync, s",
        "crash_all": "all three started after a kill until all is in sync, s",
    }
    print("| | Odradek | Kafka | ratio |\n|---|---|---|---|")
    for metric, text in names.items():
        ours, theirs = medians.get("odradek", {}).get(metric), medians.get("kafka", {}).get(metric)
        cells = ["-" if value is None else f"{value:.2f}" for value in (ours, theirs)]
        print(f"| {text} | {' | '.join(cells)} |", f"{ours / theirs:.2f} |" if ours and theirs else "- |")


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, 100 partitions")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--partitions", type=int, help="partitions of the large topic (1000)")
    parser.add_argument("--rounds", type=int, help="times each kind is measured (3)")
    parser.add_argument("--targets", default=",".join(KINDS), help="of odradek, kafka (both)")
    options = parser.parse_args()
    partitions = options.partitions or (100 if options.quick else 1000)
    rounds = options.rounds or (1 if options.quick else 3)
    asked = options.targets.split(",")
    if unknown := [each for each in asked if each not in KINDS]:
        parser.error(f"no such target: {', '.join(unknown)}")
    kinds = [kind for kind in KINDS if kind in asked]
    with tempfile.TemporaryDirectory(prefix="odradek-failover-") as name:
        medians, failures = measure_all(Path(name), kinds, partitions, rounds)
        # Before the directory is removed: so many files take minutes on a busy disk.
        if options.json:
            shared = {"partitions": partitions, "rounds": rounds, "session_s": SESSION_MS / 1000}
            print(json.dumps({**shared, **medians, "failures": failures}), flush=True)
            return
        show(medians, partitions)
        if failures:
            sys.exit("\n".join(f"{kind} failed: {text}" for kind, text in failures.items()))


if __name__ == "__main__":
    main()
