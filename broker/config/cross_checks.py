"""What the values of several broker keys must have to do with each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from broker.config.broker_keys import SYNONYMS
from broker.config.keys import ConfigError
from log.java_values import parse_integer, trim

_MIN_DEDUPE_BYTES = 1024 * 1024


def synonym_ms(values: Mapping[str, Any], name: str) -> int | None:
    """The value in milliseconds of a family such as `log.retention.ms`/`.minutes`/`.hours`: the first one set."""
    for member, unit in SYNONYMS[name]:
        value = values[member]
        if value is not None:
            return int(value) * unit
    return None


def parse_ip_overrides(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides`: `host:count` items. Raises `ConfigError`."""
    overrides: dict[str, int] = {}
    for item in filter(None, (trim(part) for part in text.split(","))):
        host, colon, count = item.rpartition(":")
        try:
            number = parse_integer(trim(count))
        except ValueError:
            number = -1
        if not colon or not trim(host) or number < 0:
            raise ConfigError(f"max.connections.per.ip.overrides has an entry that is not host:count: {item!r}")
        overrides[trim(host)] = number
    return overrides


def check_values(values: Mapping[str, Any]) -> None:
    """Check the typed values of all keys of a broker. Raises `ConfigError`, naming the key."""

    def require(condition: bool, text: str) -> None:
        if not condition:
            raise ConfigError(text)

    require(bool(values["zookeeper.connect"]), "Missing required configuration `zookeeper.connect`")
    for server in str(values["zookeeper.connect"] or "").partition("/")[0].split(","):
        # A host alone stands for port 2181; an address of IPv6 is in brackets.
        port = re.fullmatch(r"(?:\[.*\]|[^:\[]*):(.+)", server.strip())
        require(
            port is None or (port[1].isdecimal() and 0 < int(port[1]) < 65536),
            f"zookeeper.connect: {server.strip()!r} has an impossible port",
        )
    require(not values["process.roles"], "process.roles must be empty: only ZooKeeper mode is supported")
    wait = values["replica.fetch.wait.max.ms"]
    require(
        wait <= values["replica.socket.timeout.ms"],
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms",
    )
    require(
        wait <= values["replica.lag.time.max.ms"],
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms",
    )
    queued = values["queued.max.request.bytes"]
    require(
        queued <= 0 or queued >= values["socket.request.max.bytes"],
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    idle = values["connections.max.idle.ms"]
    require(
        idle < 0 or values["connection.failed.authentication.delay.ms"] < idle,
        "connections.max.idle.ms must be larger than connection.failed.authentication.delay.ms",
    )
    require(
        -1 <= values["offsets.commit.required.acks"] <= values["offsets.topic.replication.factor"],
        "offsets.commit.required.acks must be greater or equal -1 and less or equal to "
        "offsets.topic.replication.factor",
    )
    require(
        values["max.connections.per.ip"] != 0 or bool(parse_ip_overrides(values["max.connections.per.ip.overrides"])),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    parse_ip_overrides(values["max.connections.per.ip.overrides"])
    _check_logs(values, require)
    _check_ids(values, require)


def _check_logs(values: Mapping[str, Any], require: Any) -> None:
    retention = synonym_ms(values, "log.retention.ms")
    require(
        retention is None or retention == -1 or retention >= 1,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    require((synonym_ms(values, "log.roll.ms") or 0) >= 1, "log.roll.ms must be greater than or equal to 1")
    require(
        (synonym_ms(values, "log.roll.jitter.ms") or 0) >= 0, "log.roll.jitter.ms must be greater than or equal to 0"
    )
    if values["log.cleaner.enable"]:
        threads = values["log.cleaner.threads"]
        require(threads >= 1, "log.cleaner.threads must be at least 1 while log.cleaner.enable is true")
        require(
            values["log.cleaner.dedupe.buffer.size"] // threads > _MIN_DEDUPE_BYTES,
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        )


def _check_ids(values: Mapping[str, Any], require: Any) -> None:
    generated = values["broker.id.generation.enable"]
    require(values["broker.id"] >= -1, "broker.id must be at least -1")
    require(values["node.id"] == values["broker.id"], "You must set `node.id` to the same value as `broker.id`.")
    require(
        not generated or values["broker.id"] <= values["reserved.broker.max.id"],
        "broker.id must not be above reserved.broker.max.id while broker.id.generation.enable is true",
    )
    require(values["broker.id"] >= 0 or generated, "broker.id must be set when broker.id.generation.enable is false")
