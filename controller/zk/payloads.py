"""The JSON of Kafka's znodes: exact to write, tolerant to read.

Writers produce what a 3.9 broker writes: the same keys, compact, integers and strings each where Kafka has them.
Readers ignore unknown keys and the order of keys, and insist on types: an integer must be a JSON integer.
Each reader says what it does with content that is no JSON; where Kafka treats it as "no content", so do these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from log.topic_partition import TopicPartition
from network.json_text import parse_json
from network.protocol import uuids
from timer.sharing import shared

NO_LEADER = -1
LEADER_DURING_DELETE = -2
EPOCH_DURING_DELETE = -2


class PayloadError(ValueError):
    """A znode holds something that its reader cannot accept."""


# Made once: `json.dumps` makes one for each call that asks for other separators.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def _encode(value: Mapping[str, Any]) -> bytes:
    return _ENCODER.encode(value).encode()


def _parse(data: bytes | None) -> dict[str, Any] | None:
    """The JSON object in `data`, or None if there is none."""
    if not data:
        return None
    try:
        value = parse_json(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _require_object(data: bytes | None, what: str) -> dict[str, Any]:
    value = _parse(data)
    if value is None:
        raise PayloadError(f"{what}: not a JSON object: {data!r}")
    return value


def _int(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise PayloadError(f"{what}: expected an integer, found {value!r}")
    return value


def _int_list(value: Any, what: str) -> list[int]:
    return [_int(item, what) for item in _list(value, what)]


def _str(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise PayloadError(f"{what}: expected a string, found {value!r}")
    return value


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PayloadError(f"{what}: expected an object, found {value!r}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise PayloadError(f"{what}: expected an array, found {value!r}")
    return value


def _required(value: Mapping[str, Any], key: str, what: str) -> Any:
    if key not in value:
        raise PayloadError(f"{what}: key {key!r} is missing")
    return value[key]


# -- /brokers/ids/N ------------------------------------------------------------------------------------------------

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class EndPoint:
    """One advertised listener of a broker."""

    listener_name: str
    host: str
    port: int
    security_protocol: str

    @property
    def connection_string(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker's registration. `epoch` is the czxid of its znode, -1 before it is registered."""

    id: int
    endpoints: tuple[EndPoint, ...]
    rack: str | None = None
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    jmx_port: int = -1
    epoch: int = -1

    def endpoint(self, listener_name: str) -> EndPoint | None:
        return next((item for item in self.endpoints if item.listener_name == listener_name), None)


def encode_broker(broker: BrokerInfo, version: int, timestamp_ms: int) -> bytes:
    """Registration JSON of `version` 2, 4 or 5 (see `broker_registration_version`)."""
    plaintext = next((item for item in broker.endpoints if item.security_protocol == "PLAINTEXT"), None)
    value: dict[str, Any] = {
        "version": version,
        "host": plaintext.host if plaintext else None,
        "port": plaintext.port if plaintext else -1,
        "jmx_port": broker.jmx_port,
        "timestamp": str(timestamp_ms),
        "endpoints": [item.connection_string for item in broker.endpoints],
    }
    if version >= 3 and broker.rack is not None:
        value["rack"] = broker.rack
    if version >= 4:
        value["listener_security_protocol_map"] = {
            item.listener_name: item.security_protocol for item in broker.endpoints
        }
    if version >= 5:
        value["features"] = {name: dict(levels) for name, levels in broker.features.items()}
    return _encode(value)


def decode_broker(broker_id: int, data: bytes | None, epoch: int = -1) -> BrokerInfo:
    """Parse a registration of any version from 1 on. Raises `PayloadError`."""
    what = f"registration of broker {broker_id}"
    value = _require_object(data, what)
    version = _int(_required(value, "version", what), what)
    if version < 1:
        raise PayloadError(f"{what}: unsupported version {version}")
    jmx_port = _int(_required(value, "jmx_port", what), what)
    if version == 1:
        host = _str(_required(value, "host", what), what)
        port = _int(_required(value, "port", what), what)
        return BrokerInfo(broker_id, (EndPoint("PLAINTEXT", host, port, "PLAINTEXT"),), jmx_port=jmx_port, epoch=epoch)
    protocols = value.get("listener_security_protocol_map")
    if protocols is None:
        protocols = {name: name for name in SECURITY_PROTOCOLS}
    listed = _list(_required(value, "endpoints", what), what)
    endpoints = tuple(_endpoint(item, _object(protocols, what), what) for item in listed)
    names = [item.listener_name for item in endpoints]
    if len(set(names)) != len(names):
        raise PayloadError(f"{what}: more than one endpoint for a listener: {names}")
    rack = value.get("rack")
    features = {
        name: {key: _int(level, what) for key, level in _object(levels, what).items()}
        for name, levels in _object(value.get("features") or {}, what).items()
    }
    return BrokerInfo(broker_id, endpoints, None if rack is None else _str(rack, what), features, jmx_port, epoch)


def _endpoint(text: Any, protocols: Mapping[str, Any], what: str) -> EndPoint:
    match = _ENDPOINT.fullmatch(_str(text, what))
    if match is None:
        raise PayloadError(f"{what}: unable to parse endpoint {text!r}")
    listener = match.group(1).upper()
    protocol = {name.upper(): protocol for name, protocol in protocols.items()}.get(listener)
    if protocol not in SECURITY_PROTOCOLS:
        raise PayloadError(f"{what}: no security protocol defined for listener {listener}")
    return EndPoint(listener, match.group(2), int(match.group(3)), protocol)


# -- /controller ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ControllerZnode:
    """Who is controller; `kraft_epoch` above 0 means that a KRaft controller owns the cluster."""

    broker_id: int
    kraft_epoch: int = -1


def encode_controller(broker_id: int, timestamp_ms: int, kraft_epoch: int = -1) -> bytes:
    return _encode(
        {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": kraft_epoch}
    )


def decode_controller(data: bytes | None) -> ControllerZnode | None:
    """None if the content is no JSON; `PayloadError` if `brokerid` is missing or no integer."""
    value = _parse(data)
    if value is None:
        return None
    broker_id = _int(_required(value, "brokerid", "/controller"), "/controller")
    return ControllerZnode(broker_id, _int(value.get("kraftControllerEpoch", -1), "/controller"))


# -- /brokers/topics/T ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """Replicas of one partition, preferred leader first; `adding` and `removing` while it is being reassigned."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        return tuple(item for item in self.replicas if item not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(item for item in self.replicas if item not in self.removing)

    def reassign_to(self, target: Sequence[int]) -> ReplicaAssignment:
        """The assignment while moving from the current origin to `target` (which replaces a running move)."""
        origin = self.origin
        union = tuple(dict.fromkeys((*target, *origin)))
        return ReplicaAssignment(
            union,
            adding=tuple(item for item in union if item not in origin),
            removing=tuple(item for item in union if item not in target),
        )


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """A topic's id (None before 2.8) and assignment by partition."""

    topic_id: bytes | None
    assignment: Mapping[int, ReplicaAssignment]


def encode_topic(topic: TopicZnode) -> bytes:
    value: dict[str, Any] = {"version": 3}
    if topic.topic_id is not None:
        value["topic_id"] = uuids.to_text(topic.topic_id)
    items = sorted(topic.assignment.items())
    value["partitions"] = {str(partition): list(entry.replicas) for partition, entry in items}
    value["adding_replicas"] = {str(partition): list(entry.adding) for partition, entry in items if entry.adding}
    value["removing_replicas"] = {str(partition): list(entry.removing) for partition, entry in items if entry.removing}
    return _encode(value)


def decode_topic(name: str, data: bytes | None) -> TopicZnode:
    """A topic with no readable content has no partitions and no id. Raises `PayloadError` on wrong types."""
    what = f"topic {name}"
    value = _parse(data) or {}
    raw_id = value.get("topic_id")
    try:
        topic_id = None if raw_id is None else uuids.from_text(_str(raw_id, what))
    except ValueError as error:
        raise PayloadError(f"{what}: {error}") from error
    adding = _lists(value.get("adding_replicas"), what)
    removing = _lists(value.get("removing_replicas"), what)
    assignment = {
        partition: shared(ReplicaAssignment(replicas, adding.get(partition, ()), removing.get(partition, ())))
        for partition, replicas in _lists(value.get("partitions"), what).items()
    }
    return TopicZnode(topic_id, assignment)


def _lists(value: Any, what: str) -> dict[int, tuple[int, ...]]:
    if value is None:
        return {}
    try:
        return {
            int(partition): tuple(_int_list(replicas, what)) for partition, replicas in _object(value, what).items()
        }
    except ValueError as error:
        raise PayloadError(f"{what}: {error}") from error


# -- /brokers/topics/T/partitions/P/state --------------------------------------------------------------------------

RECOVERED = 0
RECOVERING = 1
# Remembered, as text and as read: thousands of partitions have few states that differ, written and read together.
_STATES = 1024


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Leadership of one partition. `partition_epoch` is the version of the znode, not part of its content."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovery_state: int = RECOVERED
    partition_epoch: int = 0


@lru_cache(maxsize=_STATES)
def encode_partition_state(state: PartitionState) -> bytes:
    value: dict[str, Any] = {
        "version": 1,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "controller_epoch": state.controller_epoch,
        "isr": list(state.isr),
    }
    if state.recovery_state != RECOVERED:
        value["leader_recovery_state"] = state.recovery_state
    return _encode(value)


@lru_cache(maxsize=_STATES)
def decode_partition_state(data: bytes | None, version: int) -> PartitionState | None:
    """None if the content is no JSON; `PayloadError` if a required key is missing or of the wrong type."""
    value = _parse(data)
    if value is None:
        return None
    what = "partition state"
    return PartitionState(
        leader=_int(_required(value, "leader", what), what),
        leader_epoch=_int(_required(value, "leader_epoch", what), what),
        isr=tuple(_int_list(_required(value, "isr", what), what)),
        controller_epoch=_int(_required(value, "controller_epoch", what), what),
        recovery_state=_int(value.get("leader_recovery_state", RECOVERED), what),
        partition_epoch=version,
    )


# -- /config/** ----------------------------------------------------------------------------------------------------


def encode_config(config: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(config)})


def decode_config(data: bytes | None) -> dict[str, str]:
    """All overrides of an entity; empty for missing, unreadable or empty content."""
    value = _parse(data) or {}
    config = value.get("config")
    if not isinstance(config, dict):
        return {}
    return {name: _str(item, f"config {name}") for name, item in config.items()}


_CONFIG_TYPES = ("topics", "clients", "users", "brokers", "ips", "groups", "client-metrics")


def encode_config_change(entity_path: str) -> bytes:
    return _encode({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes | None) -> str | None:
    """The entity path of a config change notification of version 1 or 2.

    None if it is no JSON (ignored); `PayloadError` for anything else that is not such a notification.
    """
    value = _parse(data)
    if value is None:
        return None
    what = "config change notification"
    version = _int(_required(value, "version", what), what)
    if version == 1:
        entity_type = _str(_required(value, "entity_type", what), what)
        if entity_type not in ("topics", "clients"):
            raise PayloadError(f"{what}: version 1 cannot name {entity_type!r}")
        return f"{entity_type}/{_str(_required(value, 'entity_name', what), what)}"
    if version != 2:
        raise PayloadError(f"{what}: unsupported version {version}")
    path = _str(_required(value, "entity_path", what), what)
    entity_type, slash, name = path.partition("/")
    if entity_type not in _CONFIG_TYPES or not slash or not name:
        raise PayloadError(f"{what}: invalid entity path {path!r}")
    return path


# -- notifications and admin requests ------------------------------------------------------------------------------


def encode_partitions(partitions: Sequence[TopicPartition]) -> bytes:
    """The content of an ISR change notification and of `/admin/preferred_replica_election`."""
    return _encode(
        {"version": 1, "partitions": [{"topic": item.topic, "partition": item.partition} for item in partitions]}
    )


def decode_partitions(data: bytes | None) -> list[TopicPartition]:
    """Empty if the content is no JSON; `PayloadError` on wrong types."""
    value = _parse(data)
    if value is None:
        return []
    what = "partition list"
    entries = [_object(item, what) for item in _list(_required(value, "partitions", what), what)]
    return [
        TopicPartition(_str(_required(item, "topic", what), what), _int(_required(item, "partition", what), what))
        for item in entries
    ]


def encode_log_dir_event(broker_id: int) -> bytes:
    return _encode({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(data: bytes | None) -> int | None:
    """The broker whose log directory failed; None if the content is no JSON."""
    value = _parse(data)
    return None if value is None else _int(_required(value, "broker", "log dir event"), "log dir event")


def encode_reassignment(partitions: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    return _encode(
        {
            "version": 1,
            "partitions": [
                {"topic": item.topic, "partition": item.partition, "replicas": list(replicas)}
                for item, replicas in partitions.items()
            ],
        }
    )


def decode_reassignment(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """`/admin/reassign_partitions`. This reader is strict: an unknown key makes the whole content invalid.

    Raises `PayloadError` if the content is invalid.
    """
    what = "partition reassignment"
    value = _require_object(data, what)
    if not set(value) <= {"version", "partitions"}:
        raise PayloadError(f"{what}: unknown key in {sorted(value)}")
    result: dict[TopicPartition, tuple[int, ...]] = {}
    for item in _list(value.get("partitions") or [], what):
        if not isinstance(item, dict) or not set(item) <= {"topic", "partition", "replicas"}:
            raise PayloadError(f"{what}: unexpected entry {item!r}")
        partition = TopicPartition(_str(item.get("topic"), what), _int(item.get("partition", 0), what))
        result[partition] = tuple(_int_list(item.get("replicas") or [], what))
    return result


# -- ids and features ----------------------------------------------------------------------------------------------


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    value = _require_object(data, "/cluster/id")
    return _str(_required(value, "id", "/cluster/id"), "/cluster/id")


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """A block of producer ids, both bounds inclusive, given to `broker_id`."""

    broker_id: int
    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return _encode(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_id_block(data: bytes | None) -> ProducerIdBlock | None:
    """None only for null data (no block given out yet). Raises `PayloadError` for anything unreadable, `b""` too."""
    if data is None:
        return None
    what = "/latest_producer_id_block"
    value = _require_object(data, what)
    try:
        first = int(_str(_required(value, "block_start", what), what))
        last = int(_str(_required(value, "block_end", what), what))
    except ValueError as error:
        raise PayloadError(f"{what}: {error}") from error
    return ProducerIdBlock(_int(_required(value, "broker", what), what), first, last)


@dataclass(frozen=True, slots=True)
class FeatureZnode:
    """`/feature`: JSON version 1 or 2, whether feature versioning is on, finalized level (max) by feature."""

    version: int
    enabled: bool
    features: Mapping[str, int] = field(default_factory=dict)


def encode_feature(feature: FeatureZnode) -> bytes:
    levels: dict[str, Any] = {}
    for name, level in feature.features.items():
        levels[name] = {"max_version_level": level}
        if feature.version == 1:
            levels[name]["min_version_level"] = level
    return _encode({"version": feature.version, "status": 1 if feature.enabled else 0, "features": levels})


def decode_feature(data: bytes | None) -> FeatureZnode:
    """Raises `PayloadError` for anything but a valid version 1 or 2."""
    what = "/feature"
    value = _require_object(data, what)
    version = _int(_required(value, "version", what), what)
    if version not in (1, 2):
        raise PayloadError(f"{what}: unsupported version {version}")
    status = _int(_required(value, "status", what), what)
    if status not in (0, 1):
        raise PayloadError(f"{what}: unknown status {status}")
    levels: dict[str, int] = {}
    for name, item in _object(_required(value, "features", what), what).items():
        level = _int(_required(_object(item, what), "max_version_level", what), what)
        if level < 1 or (version == 1 and not 1 <= _int(item.get("min_version_level", 1), what) <= level):
            raise PayloadError(f"{what}: invalid levels of {name}: {item!r}")
        levels[name] = level
    return FeatureZnode(version, status == 1, levels)
