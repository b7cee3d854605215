"""Contents of znodes as no broker writes them: each reader takes them or raises the error that it declares."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from broker.security.acl_store import read_extended_notification, read_literal_notification
from broker.security.acls import decode_entries
from broker.security.tokens.token import decode as decode_token
from controller.zk import payloads
from network.sasl.scram_credential import ScramCredential

_TOPIC = {
    "version": 3,
    "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
    "partitions": {"0": [0, 1], "1": [1]},
    "adding_replicas": {"0": [1]},
    "removing_replicas": {},
}
_BROKER = {
    "version": 5,
    "host": "h",
    "port": 1,
    "jmx_port": -1,
    "timestamp": "1",
    "endpoints": ["PLAINTEXT://h:1", "EXTERNAL://[::1]:2"],
    "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT", "EXTERNAL": "SSL"},
    "rack": "r",
    "features": {"f": {"min_version": 1, "max_version": 2}},
}
_ACL = {"principal": "User:a", "host": "*", "operation": "Read", "permissionType": "Allow"}
_TOKEN = {
    "owner": "User:a",
    "tokenRequester": "User:b",
    "renewers": ["User:c"],
    "issueTimestamp": 1,
    "maxTimestamp": 2,
    "expiryTimestamp": 3,
    "tokenId": "t",
    "version": 3,
}
_SCRAM = "salt=AAAA,stored_key=AAAA,server_key=AAAA,iterations=4096"

Reader = Callable[[bytes], Any]
_READERS: tuple[tuple[Any, Reader], ...] = (
    (_BROKER, lambda data: payloads.decode_broker(1, data)),
    ({"version": 2, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1}, payloads.decode_controller),
    (_TOPIC, lambda data: payloads.decode_topic("t", data)),
    (
        {"controller_epoch": 1, "leader": 0, "version": 1, "leader_epoch": 2, "isr": [0, 1]},
        lambda data: payloads.decode_partition_state(data, 1),
    ),
    ({"version": 1, "config": {"a": "b"}}, payloads.decode_config),
    ({"version": 2, "entity_path": "topics/a"}, payloads.decode_config_change),
    ({"version": 1, "partitions": [{"topic": "t", "partition": 0}]}, payloads.decode_partitions),
    ({"version": 1, "broker": 1, "event": 1}, payloads.decode_log_dir_event),
    ({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [0]}]}, payloads.decode_reassignment),
    ({"version": "1", "id": "x"}, payloads.decode_cluster_id),
    ({"version": 1, "broker": 1, "block_start": "0", "block_end": "999"}, payloads.decode_producer_id_block),
    ({"version": 2, "status": 1, "features": {"f": 1}}, payloads.decode_feature),
    ({"version": 1, "acls": [_ACL]}, decode_entries),
    ({"version": 1, "resourceType": "Topic", "name": "n", "patternType": "PREFIXED"}, read_extended_notification),
    ("TOPIC:name", read_literal_notification),
    (_TOKEN, decode_token),
    (_SCRAM, lambda data: ScramCredential.from_text(data.decode())),
)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**70,
    1.5,
    float("nan"),
    "",
    "x",
    "0",
    "-1",
    [],
    [None],
    {},
    {"0": None},
    [[0]],
    {"": []},
)


def fuzz_znode(rng: random.Random) -> None:
    """One content for one reader. Raises what the reader should not have raised."""
    sample, read = rng.choice(_READERS)
    try:
        read(_content(sample, rng))
    except ValueError:
        return  # PayloadError is one


def _content(sample: Any, rng: random.Random) -> bytes:
    drawn = rng.random()
    if drawn < 0.02:
        return rng.choice((b"[", b'{"a":')) * 200_000
    if drawn < 0.05:
        return rng.choice((b"", b"null", b"[]", b"1", b'"', b"\xff\xfe", b"{}", b"9" * 5_000, b"\0"))
    if isinstance(sample, str):
        data = sample.encode()
    else:
        data = json.dumps(_changed(sample, rng) if drawn < 0.8 else sample).encode()
    if drawn < 0.8 and not isinstance(sample, str):
        return data
    at = rng.randrange(len(data))
    return (
        data[:at]
        + rng.choice((b"", b"\0", b"9", b'"', b",", bytes([rng.randrange(256)])))
        + data[at + rng.randrange(3) :]
    )


def _changed(value: Any, rng: random.Random) -> Any:
    """The same with one place, somewhere in it, that holds something else or is not there."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.2:
        return rng.choice(_VALUES)
    if isinstance(value, list):
        at = rng.randrange(len(value))
        return [_changed(item, rng) if number == at else item for number, item in enumerate(value)]
    key = rng.choice(sorted(value))
    if rng.random() < 0.2:
        return {name: item for name, item in value.items() if name != key}
    return {name: _changed(item, rng) if name == key else item for name, item in value.items()}
