"""Values of configs: which are legal, how they are understood, and how they are shown and stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.dev.polling import wait_until
from network.protocol.errors import ErrorCode
from network.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support import wire
from tests.support.cluster import CLOCK, Cluster
from tests.support.zookeeper import zookeeper_client

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER = 2, 4
OF_TOPIC, OF_BROKER, OF_ALL, DEFAULT = 1, 2, 3, 5
WAIT_MS = 60_000
OK = (0, None)

RAW = {
    "cleanup.policy": "delete, compact",
    "retention.ms": " 1000 ",
    "unclean.leader.election.enable": "TRUE",
    "min.cleanable.dirty.ratio": "1",
    "compression.type": " gzip ",
    "flush.ms": "+07",
    "follower.replication.throttled.replicas": "0:1 , 1:2",
}
SHOWN = {
    "cleanup.policy": "delete,compact",
    "retention.ms": "1000",
    "unclean.leader.election.enable": "true",
    "min.cleanable.dirty.ratio": "1.0",
    "compression.type": "gzip",
    "flush.ms": "7",
    "follower.replication.throttled.replicas": "0:1,1:2",
}


def create(cluster: Cluster, name: str, configs: dict[str, str], *, validate_only: bool) -> Any:
    wanted = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=15_000, validate_only=validate_only)
    (answer,) = wire.call(cluster.brokers[0], request, 7).topics
    return answer


def alter(
    cluster: Cluster, kind: int, name: str, *operations: tuple[str, int, str | None], validate_only: bool = False
) -> tuple[int, str | None]:
    changes = [AlterableConfig(name=key, config_operation=kind_, value=value) for key, kind_, value in operations]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (answer,) = wire.call(cluster.brokers[0], request, 1).responses
    return answer.error_code, answer.error_message


def described(cluster: Cluster, kind: int, name: str) -> dict[str, Any]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (answer,) = wire.call(cluster.brokers[0], request, 4).results
    assert answer.error_code == 0, answer.error_message
    return {entry.name: entry for entry in answer.configs}


def synonyms(entry: Any) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in entry.synonyms]


def stored(cluster: Cluster, path: str) -> dict[str, str]:
    with zookeeper_client(cluster.zookeeper) as client:
        values: dict[str, str] = json.loads(client.get(f"/config/{path}")[0])["config"]
    return values


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    """Made with values as people type them."""
    name = wire.fresh_name()
    answer = create(cluster, name, RAW, validate_only=False)
    assert answer.error_code == 0, answer.error_message
    assert {entry.name: entry.value for entry in answer.configs if entry.name in RAW} == SHOWN
    wire.wait_for_leaders(cluster, name, 1)
    return name


def test_a_topic_that_is_only_checked_has_them_parsed(cluster: Cluster) -> None:
    answer = create(cluster, wire.fresh_name(), RAW, validate_only=True)
    assert {entry.name: entry.value for entry in answer.configs if entry.name in RAW} == SHOWN


def test_a_topic_shows_them_parsed_and_stores_them_raw(cluster: Cluster, topic: str) -> None:
    found = described(cluster, TOPIC, topic)
    assert {name: found[name].value for name in RAW} == SHOWN
    for name, value in SHOWN.items():
        assert synonyms(found[name])[0] == (name, value, OF_TOPIC)
    assert stored(cluster, f"topics/{topic}") == RAW


def test_brokers_show_values_parsed_and_their_synonyms_raw(cluster: Cluster, topic: str) -> None:
    own = {"log.cleanup.policy": "delete, compact", "log.retention.ms": " 100000 ", "some.unknown.key": "Secret"}
    of_all = {"log.preallocate": "False", "log.cleaner.io.max.bytes.per.second": "10000000", "other.unknown.key": "x"}
    changes = ((own, "0"), (of_all, ""))
    for values, broker in changes:
        assert alter(cluster, BROKER, broker, *((name, SET, value) for name, value in values.items())) == OK
    try:
        assert wait_until(lambda: "other.unknown.key" in described(cluster, BROKER, "0"), CLOCK, WAIT_MS)
        found = described(cluster, BROKER, "0")
        policy = found["log.cleanup.policy"]
        assert policy.value == "delete,compact"
        assert synonyms(policy) == [
            ("log.cleanup.policy", "delete, compact", OF_BROKER),
            ("log.cleanup.policy", "delete", DEFAULT),
        ]
        assert (found["log.retention.ms"].value, found["log.preallocate"].value) == ("100000", "false")
        assert found["log.cleaner.io.max.bytes.per.second"].value == "1.0E7"
        for name, source in (("some.unknown.key", OF_BROKER), ("other.unknown.key", OF_ALL)):
            unknown = found[name]
            assert (unknown.value, unknown.config_source, unknown.is_sensitive, unknown.read_only) == (
                None,
                source,
                True,
                True,
            )
            assert synonyms(unknown) == [(name, None, source)]
        below = synonyms(described(cluster, TOPIC, topic)["cleanup.policy"])
        assert below[:2] == [
            ("cleanup.policy", "delete,compact", OF_TOPIC),
            ("log.cleanup.policy", "delete, compact", OF_BROKER),
        ]
        defaults = described(cluster, BROKER, "")
        assert {name: defaults[name].value for name in of_all if name != "other.unknown.key"} == {
            "log.preallocate": "False",
            "log.cleaner.io.max.bytes.per.second": "10000000",
        }
    finally:
        for values, broker in changes:
            alter(cluster, BROKER, broker, *((name, DELETE, None) for name in values))


def test_node_id_follows_broker_id(cluster: Cluster) -> None:
    found = described(cluster, BROKER, "0")
    for name in ("broker.id", "node.id"):
        assert (found[name].value, synonyms(found[name])) == ("0", [(name, "0", 4), (name, "-1", DEFAULT)])


def test_lists_grow_and_shrink_as_they_are_stored(cluster: Cluster) -> None:
    name = wire.create_topic(cluster)
    key = "cleanup.policy"
    steps = [
        ((key, APPEND, "compact"), OK, "delete,compact"),
        ((key, SET, "delete, compact"), OK, "delete, compact"),
        ((key, APPEND, " compact"), OK, "delete, compact"),
        ((key, SUBTRACT, "delete"), OK, " compact"),
        ((key, APPEND, "compact,compact,delete"), OK, " compact,compact,compact,delete"),
        ((key, SUBTRACT, "compact,delete"), OK, " compact,compact"),
    ]
    for change, answer, value in steps:
        assert alter(cluster, TOPIC, name, change) == answer
        assert stored(cluster, f"topics/{name}")[key] == value
    assert alter(cluster, TOPIC, name, (key, APPEND, ""))[0] == ErrorCode.INVALID_CONFIG


def replicas_fault(value: str) -> str:
    key = "follower.replication.throttled.replicas"
    return (
        f"Invalid value [{value}] for configuration {key}: {key} must be the literal '*' or a list of replicas in the "
        "following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


FAULTS = {
    ("follower.replication.throttled.replicas", "none"): replicas_fault("none"),
    ("follower.replication.throttled.replicas", "*,0:1"): replicas_fault("*, 0:1"),
    ("follower.replication.throttled.replicas", "\u0663:1"): replicas_fault("\u0663:1"),
    ("segment.bytes", "1_000"): "Invalid value 1_000 for configuration segment.bytes: Not a number of type INT",
    ("segment.bytes", "1.0"): "Invalid value 1.0 for configuration segment.bytes: Not a number of type INT",
    ("compression.gzip.level", "0"): (
        "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"
    ),
    ("min.cleanable.dirty.ratio", "1e7"): (
        "Invalid value 1.0E7 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"
    ),
    ("min.cleanable.dirty.ratio", "inf"): (
        "Invalid value inf for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"
    ),
    (
        "cleanup.policy",
        "delete,",
    ): "Invalid value  for configuration cleanup.policy: String must be one of: compact, delete",
    ("remote.storage.enable", "true"): (
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
    ),
}


@pytest.mark.parametrize(("name", "value"), FAULTS)
def test_values_that_no_topic_takes(cluster: Cluster, topic: str, name: str, value: str) -> None:
    text = FAULTS[(name, value)]
    made = create(cluster, wire.fresh_name(), {name: value}, validate_only=True)
    assert (made.error_code, made.error_message) == (ErrorCode.INVALID_CONFIG, text)
    changed = alter(cluster, TOPIC, topic, (name, SET, value), validate_only=True)
    prefix = f"Invalid config value for resource ConfigResource(type=TOPIC, name='{topic}'): "
    assert changed == (ErrorCode.INVALID_CONFIG, prefix + text)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"no.such": "1"}, "Unknown topic config name: no.such"),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
        ),
    ],
)
def test_configs_that_no_topic_has(cluster: Cluster, topic: str, values: dict[str, str], text: str) -> None:
    made = create(cluster, wire.fresh_name(), values, validate_only=True)
    assert (made.error_code, made.error_message) == (ErrorCode.INVALID_CONFIG, text)
    changes = [(name, SET, value) for name, value in values.items()]
    assert alter(cluster, TOPIC, topic, *changes, validate_only=True) == (ErrorCode.INVALID_CONFIG, text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", ""),
        ("min.cleanable.dirty.ratio", "1f"),
        ("min.cleanable.dirty.ratio", "NaN"),
        ("min.cleanable.dirty.ratio", "0x0p3"),
        ("leader.replication.throttled.replicas", "*"),
        ("retention.ms", "\u0661\u0660"),
    ],
)
def test_values_that_a_topic_takes(cluster: Cluster, name: str, value: str) -> None:
    """A log obeys them, too: the topic gets a leader."""
    made = wire.create_topic(cluster, configs={name: value})
    wire.produce(cluster.brokers[0], made, wire.batch([b"x"]))


BROKER_FAULTS = {
    ("log.retention.ms", "0"): True,
    ("log.roll.ms", "0"): True,
    ("log.roll.jitter.ms", "-1"): True,
    ("log.cleaner.dedupe.buffer.size", "1000"): True,
    ("log.cleaner.threads", "0"): True,
    ("log.cleaner.threads", "100"): True,
    ("log.local.retention.ms", "999999999999"): True,
    ("max.connections", "0"): True,
    ("max.connection.creation.rate", "0"): True,
    ("max.connections.per.ip", "0"): True,
    ("max.connections.per.ip.overrides", "x"): True,
    ("max.connections.per.ip.overrides", "127.0.0.1:x"): True,
    ("metric.reporters", "no.such.Reporter"): True,
    ("num.io.threads", "100"): True,
    ("num.io.threads", "1_0"): True,
    ("listener.name.plaintext.max.connections", "x"): True,
    ("listener.name.plaintext.max.connections", "0"): True,
    ("listener.name.plaintext.num.network.threads", "100"): True,
    ("listener.name.plaintext.num.io.threads", "x"): True,
    ("listener.name.plaintext.num.io.threads", "1"): False,
    ("log.retention.hours", "1"): True,
    ("log.cleaner.io.buffer.load.factor", "2"): False,
    ("max.connections.per.ip.overrides", " 127.0.0.1:50 , 10.0.0.1:5"): False,
    ("no.such.key", "x"): False,
}


@pytest.mark.parametrize(("name", "value"), BROKER_FAULTS)
def test_values_that_no_broker_takes(cluster: Cluster, name: str, value: str) -> None:
    wrong = BROKER_FAULTS[(name, value)]
    code, text = alter(cluster, BROKER, "0", (name, SET, value), validate_only=True)
    assert (code, text is None) == ((ErrorCode.INVALID_REQUEST, False) if wrong else (0, True)), text


def test_all_keys_that_cannot_be_changed_are_named(cluster: Cluster) -> None:
    changes = [("num.io.threads", SET, "0"), ("broker.rack", SET, "x"), ("delete.topic.enable", SET, "true")]
    assert alter(cluster, BROKER, "0", *changes, validate_only=True) == (
        ErrorCode.INVALID_REQUEST,
        "Cannot update these configs dynamically: Set(broker.rack, delete.topic.enable)",
    )


@pytest.mark.parametrize(
    "name", ["listeners", "ssl.client.auth", "listener.name.plaintext.num.io.threads", "listener.name.x.ssl.protocol"]
)
def test_keys_of_one_broker_are_not_for_all(cluster: Cluster, name: str) -> None:
    value = {"listeners": "PLAINTEXT://:1", "ssl.client.auth": "required"}.get(name, "1")
    assert alter(cluster, BROKER, "", (name, SET, value), validate_only=True) == (
        ErrorCode.INVALID_REQUEST,
        f"Cannot update these configs at default cluster level, broker id must be specified: Set({name})",
    )


@pytest.mark.parametrize(
    ("broker", "text"),
    [
        ("7", "Unexpected broker id, expected 0, but received 7"),
        ("a", "Node id must be an integer, but it is: a"),
    ],
)
def test_other_brokers_are_not_changed(cluster: Cluster, broker: str, text: str) -> None:
    assert alter(cluster, BROKER, broker, ("num.io.threads", SET, "3")) == (ErrorCode.INVALID_REQUEST, text)


@pytest.mark.parametrize("kind", [TOPIC, BROKER])
def test_every_key_is_documented_when_that_is_asked_for(cluster: Cluster, topic: str, kind: int) -> None:
    name = topic if kind == TOPIC else "0"
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    for asked in (True, False):
        request = DescribeConfigsRequest(resources=[resource], include_documentation=asked)
        (answer,) = wire.call(cluster.brokers[0], request, 4).results
        told = {entry.name: entry.documentation for entry in answer.configs}
        assert len(told) > (30 if kind == TOPIC else 250)
        without = [key for key, text in told.items() if not text]
        assert without == ([] if asked else list(told))
        assert asked or set(told.values()) == {None}
