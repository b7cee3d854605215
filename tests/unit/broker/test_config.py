from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.broker_keys import BROKER_KEYS
from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError
from broker.config.listeners import SECURITY_PROTOCOLS, parse_endpoints
from broker.config.topic_config import topic_defaults, validate_topic_overrides
from broker.config.topic_keys import TOPIC_KEYS
from broker.config.versions import MetadataVersion, resolve_version

BASE = {"zookeeper.connect": "127.0.0.1:2181", "broker.id": "1"}


def config(**extra: str) -> KafkaConfig:
    return KafkaConfig({**BASE, **{name.replace("_", "."): value for name, value in extra.items()}})


def test_every_default_satisfies_its_own_rule() -> None:
    assert len(BROKER_KEYS) > 300
    values = config()
    assert values["num.partitions"] == 1
    assert values["log.cleaner.min.cleanable.ratio"] == 0.5
    assert values["group.coordinator.rebalance.protocols"] == ["classic"]
    assert values["log.dirs"] is None
    assert values.log_dirs == ["/tmp/kafka-logs"]


def test_default_listener_is_loopback() -> None:
    (endpoint,) = config().listeners
    assert (endpoint.host, endpoint.port, endpoint.is_loopback) == ("127.0.0.1", 9092, True)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("PLAINTEXT://127.0.0.1:1", None),
        ("PLAINTEXT://127.3.2.1:1", None),
        ("PLAINTEXT://localhost:1", None),
        ("PLAINTEXT://[::1]:1", None),
        ("PLAINTEXT://:1", "PLAINTEXT://:1 is reachable from other machines without encryption or authentication"),
        ("PLAINTEXT://0.0.0.0:1", "without encryption or authentication (PLAINTEXT)"),
        ("PLAINTEXT://[::]:1", "PLAINTEXT://[::]:1 is reachable"),
        ("PLAINTEXT://127.example.org:1", "127.example.org"),
        ("SASL_PLAINTEXT://10.0.0.1:1", "without encryption (SASL_PLAINTEXT)"),
        ("SASL_SSL://10.0.0.1:1", None),
        ("SSL://10.0.0.1:1", None),
    ],
)
def test_who_can_read_along(address: str, said: str | None) -> None:
    protocols = {name: name for name in SECURITY_PROTOCOLS}
    (endpoint,) = parse_endpoints("listeners", address, protocols, unique_ports=True)
    if said is None:
        assert endpoint.warning is None
    else:
        assert endpoint.warning is not None
        assert endpoint.warning.startswith("listeners: ")
        assert said in endpoint.warning


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"num.partitions": "0"}, "num.partitions"),
        ({"num.partitions": "many"}, "num.partitions"),
        ({"auto.create.topics.enable": "yes"}, "auto.create.topics.enable"),
        ({"log.message.timestamp.type": "Now"}, "log.message.timestamp.type"),
        ({"replica.fetch.wait.max.ms": "40000"}, "replica.socket.timeout.ms"),
        ({"replica.fetch.wait.max.ms": "20000", "replica.lag.time.max.ms": "10000"}, "replica.lag.time.max.ms"),
        ({"queued.max.request.bytes": "100"}, "queued.max.request.bytes"),
        ({"connections.max.idle.ms": "100"}, "connections.max.idle.ms"),
        ({"broker.id": "1001"}, "reserved.broker.max.id"),
        ({"zookeeper.connect": "a:2181,b:many/chroot"}, "'b:many' has an impossible port"),
        ({"zookeeper.connect": "[::1]:99999"}, "impossible port"),
        ({"broker.id": "-5"}, "at least -1"),
        ({"inter.broker.protocol.version": "9.9"}, "9.9"),
        ({"listeners": "PLAINTEXT://:9092,PLAINTEXT://:9093"}, "different name"),
        ({"listeners": "A://:9092", "listener.security.protocol.map": "B:PLAINTEXT"}, "No security protocol"),
        ({"listeners": "PLAINTEXT://a:1,SSL://b:1"}, "different port"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "0.0.0.0"),
        ({"advertised.listeners": "SSL://h:9092"}, "SSL"),
        ({"control.plane.listener.name": "CONTROL"}, "control.plane.listener.name"),
        ({"control.plane.listener.name": "PLAINTEXT"}, "differ"),
        ({"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"}, "Only one"),
        ({"leader.replication.throttled.rate": "1"}, "dynamically"),
        ({"log.dirs": "/a,/a"}, "twice"),
    ],
)
def test_refused(properties: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        KafkaConfig({**BASE, **properties})


def test_zookeeper_connect_is_required() -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        KafkaConfig({})


def test_ipv4_and_ipv6_may_share_a_port() -> None:
    listeners = "PLAINTEXT://127.0.0.1:9092,SIX://[::1]:9092"
    values = KafkaConfig(
        {**BASE, "listeners": listeners, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SIX:PLAINTEXT"}
    )
    assert [str(endpoint) for endpoint in values.listeners] == listeners.split(",")


def test_advertised_endpoints_fill_in_port_and_host() -> None:
    values = KafkaConfig({**BASE, "listeners": "PLAINTEXT://127.0.0.1:0"})
    (endpoint,) = values.advertised_endpoints({"PLAINTEXT": 4242})
    assert str(endpoint) == "PLAINTEXT://127.0.0.1:4242"


def test_first_synonym_that_is_set_decides() -> None:
    assert topic_defaults(config())["retention.ms"] == str(168 * 3_600_000)
    assert topic_defaults(config(log_retention_minutes="5"))["retention.ms"] == "300000"
    assert topic_defaults(config(log_retention_minutes="5", log_retention_ms="7"))["retention.ms"] == "7"


def test_dynamic_level_hides_the_synonyms_below_it() -> None:
    values = config(log_retention_ms="7", num_io_threads="8")
    changed = values.use_dynamic({"log.retention.minutes": "1"}, {"num.io.threads": "6"})
    assert topic_defaults(values)["retention.ms"] == "60000"
    assert changed["num.io.threads"] == (8, 6)
    values.use_dynamic({}, {})
    assert topic_defaults(values)["retention.ms"] == "7"
    assert values["num.io.threads"] == 8


def test_invalid_dynamic_value_changes_nothing() -> None:
    values = config()
    with pytest.raises(ConfigError):
        values.use_dynamic({"num.io.threads": "none"}, {})
    assert values.dynamic_broker == {}


def test_dynamic_values_hold_for_a_generated_id() -> None:
    values = config()
    values.set_broker_id(1001)
    assert values.use_dynamic({"num.io.threads": "5"}, {}) == {"num.io.threads": (4, 5)}
    assert values.broker_id == 1001
    assert values.with_listeners({"listeners": "PLAINTEXT://127.0.0.1:9095"}).broker_id == 1001


@pytest.mark.parametrize("servers", ["a", "a:1,b/chroot:x", "[::1]", "[::1]:2181,a:2181/c"])
def test_addresses_of_zookeeper(servers: str) -> None:
    assert config(zookeeper_connect=servers)["zookeeper.connect"] == servers


def test_topic_keys_all_have_a_default_text() -> None:
    defaults = topic_defaults(config())
    assert set(defaults) == set(TOPIC_KEYS)
    assert defaults["segment.ms"] == "604800000"
    assert defaults["min.cleanable.dirty.ratio"] == "0.5"
    assert defaults["cleanup.policy"] == "delete"


@pytest.mark.parametrize(
    "overrides",
    [
        {"retention.msec": "1"},
        {"cleanup.policy": "shred"},
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
        {"remote.storage.enable": "true"},
        {"leader.replication.throttled.replicas": "0-1"},
    ],
)
def test_bad_topic_overrides(overrides: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        validate_topic_overrides(overrides, config())


def test_good_topic_overrides() -> None:
    validate_topic_overrides(
        {"cleanup.policy": "compact,delete", "follower.replication.throttled.replicas": "0:1,1:2"}, config()
    )


def test_versions() -> None:
    assert resolve_version("3.9") == "3.9-IV0"
    assert resolve_version("2.7") == "2.7-IV2"
    assert resolve_version("3.9.1") == "3.9-IV0"
    assert resolve_version("0.10.1") == "0.10.1-IV2"
    with pytest.raises(ValueError):
        resolve_version("3.9-IV7")
    old, new = MetadataVersion("2.6"), MetadataVersion("3.9")
    assert (old.fetch_request_version, new.fetch_request_version) == (11, 17)
    assert (old.offset_for_leader_epoch_request_version, old.uses_alter_partition) == (3, False)
    assert new.uses_alter_partition
    assert new.uses_topic_ids


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"broker.rack=caf\xe9\n")
    with pytest.raises(ConfigError, match=r"server\.properties is not text in UTF-8"):
        KafkaConfig.from_file(file)
