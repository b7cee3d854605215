"""The JSON of the znodes, compared with what Apache Kafka 3.9.1 wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from controller.zk import paths, payloads
from controller.zk.payloads import (
    BrokerInfo,
    EndPoint,
    FeatureZnode,
    PartitionState,
    PayloadError,
    ProducerIdBlock,
    ReplicaAssignment,
    TopicZnode,
)
from log.topic_partition import TopicPartition
from tests.support.paths import shared_golden


@pytest.fixture(scope="module")
def golden() -> list[dict[str, Any]]:
    return list(json.loads((shared_golden() / "znodes.json").read_text())["dumps"])


def znodes(golden: list[dict[str, Any]], prefix: str) -> Iterator[tuple[str, bytes | None, int]]:
    found = 0
    for dump in golden:
        for path, znode in dump["znodes"].items():
            if path.startswith(prefix):
                found += 1
                data = znode["data"]
                yield path, None if data is None else data.encode(), znode["version"]
    assert found, f"no golden znode below {prefix}"


def test_topics(golden: list[dict[str, Any]]) -> None:
    for path, data, _ in znodes(golden, "/brokers/topics/"):
        if path.count("/") != 3:
            continue
        assert data is not None
        topic = payloads.decode_topic("t", data)
        assert json.loads(payloads.encode_topic(topic)) == json.loads(data)


def test_partition_states(golden: list[dict[str, Any]]) -> None:
    for path, data, version in znodes(golden, "/brokers/topics/"):
        if not path.endswith("/state"):
            continue
        assert data is not None
        state = payloads.decode_partition_state(data, version)
        assert state is not None
        assert state.partition_epoch == version
        assert json.loads(payloads.encode_partition_state(state)) == json.loads(data)


def test_brokers(golden: list[dict[str, Any]]) -> None:
    for path, data, _ in znodes(golden, "/brokers/ids/"):
        assert data is not None
        expected = json.loads(data)
        broker = payloads.decode_broker(int(path.rpartition("/")[2]), data, 7)
        assert broker.epoch == 7
        written = payloads.encode_broker(broker, expected["version"], int(expected["timestamp"]))
        assert json.loads(written) == expected
        assert f'"timestamp":"{expected["timestamp"]}"'.encode() in written


def test_controller_epoch_and_controller(golden: list[dict[str, Any]]) -> None:
    for _, data, _ in znodes(golden, "/controller"):
        assert data is not None
        if data.isdigit():
            continue
        expected = json.loads(data)
        controller = payloads.decode_controller(data)
        assert controller is not None
        assert controller.broker_id == expected["brokerid"]
        assert (
            json.loads(
                payloads.encode_controller(controller.broker_id, int(expected["timestamp"]), controller.kraft_epoch)
            )
            == expected
        )


def test_configs_and_changes(golden: list[dict[str, Any]]) -> None:
    for path, data, _ in znodes(golden, "/config/"):
        if data is None:
            continue
        if path.startswith("/config/changes/"):
            entity = payloads.decode_config_change(data)
            assert entity is not None
            assert json.loads(payloads.encode_config_change(entity)) == json.loads(data)
        else:
            assert json.loads(payloads.encode_config(payloads.decode_config(data))) == json.loads(data)


def test_ids_and_features_are_written_as_kafka_writes_them(golden: list[dict[str, Any]]) -> None:
    for _, data, _ in znodes(golden, "/latest_producer_id_block"):
        block = payloads.decode_producer_id_block(data)
        if data is None:
            assert block is None
        else:
            assert block is not None
            assert block.size == 1000
            assert payloads.encode_producer_id_block(block) == data
    for _, data, _ in znodes(golden, "/cluster/id"):
        assert data is not None
        assert payloads.encode_cluster_id(payloads.decode_cluster_id(data)) == data
    for _, data, _ in znodes(golden, "/feature"):
        feature = payloads.decode_feature(data)
        assert data is not None
        assert json.loads(payloads.encode_feature(feature)) == json.loads(data)


def test_isr_change_notifications() -> None:
    seen = json.loads((shared_golden() / "znodes.json").read_text())["isr_change_notifications_seen_ibp_2_6"]
    assert seen
    for name, data, ephemeral in seen:
        assert not ephemeral
        assert paths.sequence_of(name, paths.ISR_CHANGE_PREFIX) is not None
        assert payloads.encode_partitions(payloads.decode_partitions(data.encode())) == data.encode()


@pytest.mark.parametrize("digits", ["", "\u00b2", "--1", "1_0", "9" * 5_000])
def test_a_child_that_is_no_sequential_one(digits: str) -> None:
    assert paths.sequence_of(paths.ISR_CHANGE_PREFIX + digits, paths.ISR_CHANGE_PREFIX) is None


def test_sanitized_names_are_those_of_kafka(golden: list[dict[str, Any]]) -> None:
    sanitized = {path.split("/")[3] for path, _, _ in znodes(golden, "/config/users/")}
    assert paths.sanitize("user with/odd:chars") in sanitized
    for name in ("~", "*", "<default>", "a b", "ü/€", "x-y_z.1", "+"):
        assert paths.desanitize(paths.sanitize(name)) == name
    assert paths.sanitize("~*") == "%7E%2A"
    assert paths.sanitize("<default>") == "%3Cdefault%3E"


@pytest.mark.parametrize(
    ("version", "content"),
    [
        (1, '{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}'),
        (2, '{"version":2,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h:9092"]}'),
        (3, '{"version":3,"jmx_port":-1,"timestamp":"1","endpoints":["plaintext://h:9092"],"rack":null}'),
        (9, '{"version":9,"jmx_port":-1,"endpoints":["PLAINTEXT://h:9092"],"new":{},"features":{}}'),
    ],
)
def test_registrations_of_every_version_are_read(version: int, content: str) -> None:
    broker = payloads.decode_broker(3, content.encode())
    assert broker.endpoints == (EndPoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),)
    assert broker.rack is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "nonsense",
        '{"version":0,"jmx_port":-1,"endpoints":[]}',
        '{"version":5,"endpoints":["PLAINTEXT://h:1"]}',
        '{"version":5,"jmx_port":-1,"endpoints":["EXTERNAL://h:1"]}',
        '{"version":5,"jmx_port":-1,"endpoints":["PLAINTEXT://h"]}',
        '{"version":5,"jmx_port":-1,"endpoints":["PLAINTEXT://a:1","PLAINTEXT://b:2"]}',
        '{"version":5.0,"jmx_port":-1,"endpoints":["PLAINTEXT://h:1"]}',
        '{"version":5,"jmx_port":"-1","endpoints":["PLAINTEXT://h:1"]}',
    ],
)
def test_unreadable_registrations_are_errors(content: str) -> None:
    with pytest.raises(PayloadError):
        payloads.decode_broker(1, content.encode())


def test_ipv6_and_empty_hosts() -> None:
    broker = BrokerInfo(1, (EndPoint("A", "::1", 1, "SSL"), EndPoint("B", "", 2, "PLAINTEXT")), rack="r")
    data = payloads.encode_broker(broker, 5, 1)
    assert b"A://[::1]:1" in data
    assert payloads.decode_broker(1, data) == broker
    assert json.loads(data)["port"] == 2
    assert json.loads(payloads.encode_broker(BrokerInfo(1, broker.endpoints[:1]), 5, 1))["host"] is None


def test_integers_must_be_integers() -> None:
    for leader in ("1.0", '"1"', "true", "null", "[1]"):
        with pytest.raises(PayloadError):
            payloads.decode_partition_state(
                f'{{"leader":{leader},"leader_epoch":0,"isr":[1],"controller_epoch":1}}'.encode(), 0
            )
    with pytest.raises(PayloadError):
        payloads.decode_partition_state(b'{"leader":1,"leader_epoch":0,"controller_epoch":1}', 0)
    assert payloads.decode_partition_state(b"garbage", 0) is None


def test_recovery_state_is_only_written_while_recovering() -> None:
    recovered = PartitionState(1, 2, (1,), 3)
    assert b"recovery" not in payloads.encode_partition_state(recovered)
    recovering = PartitionState(1, 2, (1,), 3, payloads.RECOVERING, 9)
    assert payloads.decode_partition_state(payloads.encode_partition_state(recovering), 9) == recovering


def test_topic_versions() -> None:
    assert payloads.decode_topic("t", b'{"version":1,"partitions":{"0":[1]}}') == TopicZnode(
        None, {0: ReplicaAssignment((1,))}
    )
    assert payloads.decode_topic("t", b"no json") == TopicZnode(None, {})
    with pytest.raises(PayloadError):
        payloads.decode_topic("t", b'{"partitions":{"x":[1]}}')
    with pytest.raises(PayloadError):
        payloads.decode_topic("t", b'{"partitions":{"0":[1]},"topic_id":"short"}')


def test_reassignment_reader_is_strict() -> None:
    partition = TopicPartition("t", 1)
    assert payloads.decode_reassignment(payloads.encode_reassignment({partition: [3, 4]})) == {partition: (3, 4)}
    for content in (
        b'{"version":1,"partitions":[],"extra":1}',
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":[]}]}',
        b"{",
        b"",
    ):
        with pytest.raises(PayloadError):
            payloads.decode_reassignment(content)


def test_config_change_versions() -> None:
    assert payloads.decode_config_change(b'{"version":1,"entity_type":"topics","entity_name":"t"}') == "topics/t"
    assert payloads.decode_config_change(b"plain text") is None
    for content in (
        b'{"version":3,"entity_path":"topics/t"}',
        b'{"version":1,"entity_type":"users","entity_name":"u"}',
        b'{"version":2,"entity_path":"racks/r"}',
        b'{"version":2,"entity_path":"topics"}',
    ):
        with pytest.raises(PayloadError):
            payloads.decode_config_change(content)


def test_feature_and_block_errors() -> None:
    assert payloads.decode_feature(
        b'{"version":1,"status":0,"features":{"x":{"min_version_level":1,"max_version_level":2}}}'
    ) == (FeatureZnode(1, False, {"x": 2}))
    for content in (
        b'{"version":3,"status":1,"features":{}}',
        b'{"version":2,"status":2,"features":{}}',
        b'{"version":2}',
    ):
        with pytest.raises(PayloadError):
            payloads.decode_feature(content)
    with pytest.raises(PayloadError):
        payloads.decode_producer_id_block(b"")
    with pytest.raises(PayloadError):
        payloads.decode_producer_id_block(b'{"version":1,"broker":1,"block_start":0,"block_end":999}')
    assert ProducerIdBlock(1, 0, 999).size == 1000


def test_assignment_arithmetic() -> None:
    running = ReplicaAssignment((1, 2)).reassign_to((3, 1))
    assert running == ReplicaAssignment((3, 1, 2), adding=(3,), removing=(2,))
    assert running.origin == (1, 2)
    assert running.target == (3, 1)
    assert running.being_reassigned
    # A second target replaces the first; cancelling goes back to the origin set.
    assert running.reassign_to((4, 2)) == ReplicaAssignment((4, 2, 1), adding=(4,), removing=(1,))
    assert not running.reassign_to(running.origin).being_reassigned


@pytest.mark.parametrize(
    ("read", "content"),
    [
        (partial(payloads.decode_broker, 1), '{"version":5,"jmx_port":-1,"endpoints":1.5}'),
        (partial(payloads.decode_broker, 1), '{"version":5,"jmx_port":-1,"endpoints":[],"features":"x"}'),
        (partial(payloads.decode_broker, 1), '{"version":5,"jmx_port":-1,"endpoints":[],"features":{"f":"x"}}'),
        (
            partial(payloads.decode_broker, 1),
            '{"version":5,"jmx_port":-1,"endpoints":[""],"listener_security_protocol_map":[]}',
        ),
        (payloads.decode_partitions, '{"version":1,"partitions":null}'),
        (payloads.decode_partitions, '{"version":1,"partitions":[7]}'),
        (payloads.decode_reassignment, '{"version":1,"partitions":7}'),
        (payloads.decode_feature, '{"version":1,"status":1,"features":{"f":1.5}}'),
        (payloads.decode_cluster_id, "[" * 200_000),
    ],
)
def test_another_shape_is_a_payload_error(read: Callable[[bytes], object], content: str) -> None:
    with pytest.raises(PayloadError):
        read(content.encode())


def test_json_that_is_nested_too_deeply_is_no_json() -> None:
    assert payloads.decode_config(b'{"a":' * 200_000) == {}
