"""Quotas of clients: what may be asked, what is kept, and what clients see of them, on both kinds of broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from network.client.connection import Connection, ConnectionFailed
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryDataRequest, OpData
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from network.protocol.messages.metadata import MetadataRequest
from tests.support import wire
from tests.support.cluster import CLOCK, HOST, Broker, Cluster, Kind
from tests.support.secured import World, connect_from
from tests.support.zookeeper import zookeeper_client

QUOTA = 100_000.0
BATCH = 5_000
IN_FORCE_S = 1.0
SETTLED_S = 3.0
MEASURED_S = 9.0
"""Three windows: within one a rate swings by what a newcomer may use at once."""

Entity = list[tuple[str, str | None]]


def on_both(world: World, do: Callable[[Cluster], Any]) -> dict[Kind, Any]:
    """At the same time, since most of it is waiting."""
    with ThreadPoolExecutor(2) as pool:
        futures = {kind: pool.submit(do, cluster) for kind, cluster in world.clusters.items()}
        return {kind: future.result() for kind, future in futures.items()}


def alter(broker: Broker, entity: Entity, *, validate_only: bool = False, **values: float | None) -> tuple[int, Any]:
    entry = EntryDataRequest(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    (answer,) = wire.call(broker, request, 1).entries
    return answer.error_code, answer.error_message


def connect(broker: Broker, client_id: str) -> Connection:
    return Connection(HOST, broker.port, client_id, CLOCK, socket_timeout_ms=30_000)


CASES: list[tuple[Entity, dict[str, float | None]]] = [
    ([("user", "al ice")], {"producer_byte_rate": 1024.0, "request_percentage": 12.5}),
    ([("user", None)], {"consumer_byte_rate": 2048.0}),
    ([("user", "al ice"), ("client-id", "a/pp*")], {"controller_mutation_rate": 1e8}),
    ([("user", None), ("client-id", None)], {"producer_byte_rate": 1e9}),
    ([("client-id", "c~d")], {"producer_byte_rate": 13.0, "consumer_byte_rate": 14.0}),
    ([("client-id", "c~d")], {"producer_byte_rate": None}),
    ([("ip", "127.0.0.9")], {"connection_creation_rate": 15.0}),
    ([("ip", None)], {"connection_creation_rate": 1000.0}),
    ([("ip", None)], {"connection_creation_rate": None}),
    ([("ip", "127.0.0.9")], {"connection_creation_rate": -1.0}),
    ([("ip", "127.0.0.9")], {"producer_byte_rate": 1.0}),
    ([("ip", "127.0.0.9"), ("user", "x")], {"connection_creation_rate": 1.0}),
    ([("ip", "no such host.")], {"connection_creation_rate": 1.0}),
    ([("user", "x")], {"connection_creation_rate": 1.0}),
    ([("user", "x")], {"producer_byte_rate": 1.5}),
    ([("user", "x")], {"producer_byte_rate": -5.0}),
    ([("user", "x")], {"unknown": 1.0}),
    ([("user", "")], {"producer_byte_rate": 1.0}),
    ([("team", "x")], {"producer_byte_rate": 1.0}),
    ([], {"producer_byte_rate": 1.0}),
    ([("user", "gone"), ("client-id", "gone")], {"producer_byte_rate": 1.0}),
    ([("user", "gone"), ("client-id", "gone")], {"producer_byte_rate": None}),
    ([("user", "gone")], {"producer_byte_rate": None}),
]


def stored(cluster: Cluster) -> dict[str, bytes | None]:
    """Everything that ZooKeeper has of users, clients and addresses."""
    found: dict[str, bytes | None] = {}
    with zookeeper_client(cluster.zookeeper.partition("/")[0]) as client:
        chroot = "/" + cluster.zookeeper.partition("/")[2]

        def walk(path: str) -> None:
            found[path.removeprefix(chroot)] = client.get(path)[0] or None
            for child in client.get_children(path):
                walk(f"{path}/{child}")

        for kind in ("users", "clients", "ips"):
            walk(f"{chroot}/config/{kind}")
    return found


def test_what_may_be_set_and_how_it_is_kept(secured: World) -> None:
    def run(cluster: Cluster) -> Any:
        (broker,) = cluster.brokers
        answers = []
        for entity, values in CASES:
            code, message = alter(broker, entity, validate_only=False, **values)
            answers.append((entity, values, ErrorCode.of(code).name, message is None))
        assert alter(broker, [("user", "y")], validate_only=True, producer_byte_rate=1.0)[0] == 0
        described = wire.call(broker, DescribeClientQuotasRequest(components=[], strict=False), 1)
        rows = sorted(
            (
                sorted((part.entity_type, part.entity_name or "") for part in entry.entity),
                sorted((value.key, value.value) for value in entry.values),
            )
            for entry in described.entries
        )
        return answers, rows, {path: _config(data) for path, data in stored(cluster).items()}

    results = on_both(secured, run)
    assert results["odradek"] == results["kafka"]
    for cluster in secured.clusters.values():
        (broker,) = cluster.brokers
        for entity, values in CASES:
            alter(broker, entity, validate_only=False, **dict.fromkeys(values, None))
        only = ComponentData(entity_type="user", match_type=2, match=None)
        assert not wire.call(broker, DescribeClientQuotasRequest(components=[only], strict=False), 1).entries


def _config(data: bytes | None) -> Any:
    return None if data is None else sorted(json.loads(data)["config"].items())


def rate_of(step: Callable[[], tuple[int, int]]) -> float:
    """Bytes per second of a client that sends faster than it may; a step gives bytes and the throttle time.

    From one throttled answer to another, when the first windows are over: a client that may go on sends much at once,
    and whether the last such burst falls into the time would decide on a tenth of the rate.
    """
    time.sleep(IN_FORCE_S)
    marks: list[tuple[float, int]] = []
    total, began = 0, time.monotonic()
    while time.monotonic() - began < SETTLED_S + MEASURED_S:
        size, delay_ms = step()
        total += size
        if delay_ms > 0 and time.monotonic() - began > SETTLED_S:
            marks.append((time.monotonic(), total))
        wire.pause(0.01)
    assert len(marks) > 1, "not throttled"
    (first, before), (last, after) = marks[0], marks[-1]
    return (after - before) / (last - first)


def check_rates(rates: dict[Kind, float]) -> None:
    """Within a tenth of the quota, and of Kafka's."""
    assert rates["odradek"] == pytest.approx(QUOTA, rel=0.1), rates
    assert rates["odradek"] == pytest.approx(rates["kafka"], rel=0.1), rates


def test_producers_get_what_their_quota_says(secured: World) -> None:
    def run(cluster: Cluster) -> float:
        (broker,) = cluster.brokers
        topic = wire.create_topic(cluster)
        assert alter(broker, [("client-id", "producer")], producer_byte_rate=QUOTA)[0] == 0
        request = wire.produce_request(topic, wire.batch([b"x" * BATCH]))
        connection = connect(broker, "producer")

        def step() -> tuple[int, int]:
            answer = connection.call(request, wire.PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].error_code == 0
            return BATCH, answer.throttle_time_ms

        try:
            return rate_of(step)
        finally:
            connection.close()

    check_rates(on_both(secured, run))


def test_consumers_get_what_their_quota_says_and_nothing_while_they_wait(secured: World) -> None:
    def run(cluster: Cluster) -> float:
        (broker,) = cluster.brokers
        topic = wire.create_topic(cluster)
        wire.produce(broker, topic, wire.batch([b"x" * BATCH]))
        assert alter(broker, [("client-id", "consumer")], consumer_byte_rate=QUOTA)[0] == 0
        connection = connect(broker, "consumer")

        def step() -> tuple[int, int]:
            answer = connection.call(wire.fetch_request(topic, 0), wire.FETCH_VERSION)
            if answer.throttle_time_ms:
                assert not answer.responses
                return 0, answer.throttle_time_ms
            size = len(answer.responses[0].partitions[0].records)
            assert size > BATCH
            return size, 0

        try:
            return rate_of(step)
        finally:
            connection.close()

    check_rates(on_both(secured, run))


def test_a_client_that_takes_too_much_time_waits_for_at_most_a_window(secured: World) -> None:
    def run(cluster: Cluster) -> int:
        (broker,) = cluster.brokers
        assert alter(broker, [("client-id", "busy")], request_percentage=0.01)[0] == 0
        with wire.connected(broker, "busy") as connection:
            for _ in range(2_000):
                delay: int = connection.call(MetadataRequest(topics=None), 9).throttle_time_ms
                if delay:
                    began = time.monotonic()
                    connection.call(MetadataRequest(topics=None), 9)
                    assert (time.monotonic() - began) * 1000 >= delay * 0.9
                    return delay
        return 0

    delays = on_both(secured, run)
    assert all(0 < delay <= 1000 for delay in delays.values()), delays


def test_changes_of_topics_strictly_and_permissively(secured: World) -> None:
    def create(broker: Broker, partitions: int, version: int) -> tuple[str, bool]:
        topic = CreatableTopic(name=wire.fresh_name(), num_partitions=partitions, replication_factor=1)
        with wire.connected(broker, "maker") as connection:
            answer = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), version)
        return ErrorCode.of(answer.topics[0].error_code).name, answer.throttle_time_ms > 0

    def run(cluster: Cluster) -> Any:
        (broker,) = cluster.brokers
        assert alter(broker, [("client-id", "maker")], controller_mutation_rate=1.0)[0] == 0
        deadline = time.monotonic() + 10
        while True:  # until the quota is in force: the bucket holds two
            first = create(broker, 8, 5)
            if first[1]:
                break
            assert time.monotonic() < deadline
        return [first, create(broker, 1, 7), create(broker, 1, 5), create(broker, 1, 6)]

    results = on_both(secured, run)
    assert results["odradek"] == results["kafka"]
    assert ("THROTTLING_QUOTA_EXCEEDED", True) in results["odradek"]


def test_connections_of_one_address(secured: World) -> None:
    def run(cluster: Cluster) -> int:
        (broker,) = cluster.brokers
        assert alter(broker, [("ip", "127.0.3.1")], connection_creation_rate=2.0)[0] == 0
        deadline = time.monotonic() + 10
        while attempt(broker) and time.monotonic() < deadline:
            pass  # until the rate is in force and used up
        time.sleep(4)  # the window passes
        return sum(attempt(broker) for _ in range(10))

    def attempt(broker: Broker) -> bool:
        try:
            connection = connect_from("127.0.3.1", broker)
        except ConnectionFailed:
            return False
        try:
            connection.call(wire.ASK_VERSIONS, 3)
            return True
        except (TimeoutError, ConnectionFailed):
            return False
        finally:
            connection.close()

    served = on_both(secured, run)
    for cluster in secured.clusters.values():
        alter(cluster.brokers[0], [("ip", "127.0.3.1")], connection_creation_rate=None)
    assert 0 < served["odradek"] < 10
    assert abs(served["odradek"] - served["kafka"]) <= 3
