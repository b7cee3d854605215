"""Options of the ``odradek`` source and sink: those of Spark's Kafka connector, with its defaults and refusals.

Names are case-insensitive. Everything is checked when the source is made, so a wrong option fails the query before it
runs, with the option and the cure named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from network.client.security import ClientSecurity
from spark_jobs.connection import CLIENT_ID, client_security_of, required_bootstrap
from spark_jobs.option_table import OptionError, check_names
from spark_jobs.topic_pattern import PatternError, compile_java

EARLIEST = -2
LATEST = -1

Partition = tuple[str, int]


class Edge(Enum):
    """Offsets that are not numbers; those of a consumer group as a start only."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class ByOffset:
    """Offsets by partition; -2 is earliest, -1 is latest."""

    offsets: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class ByTimestamp:
    """Timestamps in ms by partition, or one for all."""

    timestamps: Mapping[Partition, int]
    everywhere: int | None = None


Limit = Edge | ByOffset | ByTimestamp


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions: exactly one of topics, pattern and assignment."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignment: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def matches(self, topic: str) -> bool:
        """Whether a topic is meant (for ``assign``: any of its partitions)."""
        if self.pattern is not None:
            return compile_java(self.pattern).fullmatch(topic) is not None
        return topic in self.topics or topic in self.assignment


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Validated options of a read."""

    bootstrap_servers: str
    security: ClientSecurity
    subscription: Subscription
    starting: Limit
    ending: Limit
    timestamp_strategy: str
    include_headers: bool
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    poll_timeout_ms: int
    fetch_retries: int
    fetch_retry_interval_ms: int
    read_committed: bool
    client_rack: str
    client_id: str
    fetch_max_bytes: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    partition_fetch_bytes: int
    group_id: str | None
    group_reset: str

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
        """Check and read the options. Raises OptionError."""
        given = {name.lower(): value for name, value in options.items()}
        check_names(given, "S" if streaming else "R")
        starting = _limit(given, "starting", Edge.LATEST if streaming else Edge.EARLIEST)
        ending = _limit(given, "ending", Edge.LATEST)
        if streaming:
            for name in ("endingoffsets", "endingoffsetsbytimestamp", "endingtimestamp"):
                if name in given:
                    raise OptionError(f"option {name} is not valid in streaming queries: a stream has no end")
        else:
            _check_batch_limits(starting, ending)
            for name in ("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"):
                if name in given:
                    given.pop(name)
        strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
        if strategy not in ("error", "latest"):
            raise OptionError(f"startingOffsetsByTimestampStrategy is {strategy!r}; give 'error' or 'latest'")
        max_offsets = positive(given, "maxOffsetsPerTrigger")
        min_offsets = positive(given, "minOffsetsPerTrigger")
        if max_offsets is not None and min_offsets is not None and max_offsets < min_offsets:
            raise OptionError("maxOffsetsPerTrigger must not be below minOffsetsPerTrigger")
        include_headers = flag(given, "includeHeaders", False)
        isolation = given.get("kafka.isolation.level", "read_uncommitted")
        if isolation not in ("read_committed", "read_uncommitted"):
            raise OptionError(f"kafka.isolation.level is {isolation!r}; give 'read_committed' or 'read_uncommitted'")
        return cls(
            bootstrap_servers=required_bootstrap(given),
            security=client_security_of(given),
            subscription=subscription(given),
            starting=starting,
            ending=ending,
            timestamp_strategy=strategy,
            include_headers=include_headers,
            columns=read_columns(given, include_headers),
            fail_on_data_loss=flag(given, "failOnDataLoss", True),
            min_partitions=positive(given, "minPartitions"),
            max_records_per_partition=positive(given, "maxRecordsPerPartition"),
            max_offsets_per_trigger=max_offsets,
            min_offsets_per_trigger=min_offsets,
            max_trigger_delay_ms=duration_ms(given.get("maxtriggerdelay", "15m"), "maxTriggerDelay"),
            poll_timeout_ms=positive(given, "kafkaConsumer.pollTimeoutMs") or 120_000,
            fetch_retries=_count(given, "fetchOffset.numRetries", 3),
            fetch_retry_interval_ms=_count(given, "fetchOffset.retryIntervalMs", 10),
            read_committed=isolation == "read_committed",
            client_rack=given.get("kafka.client.rack", ""),
            client_id=given.get("kafka.client.id", CLIENT_ID),
            fetch_max_bytes=positive(given, "kafka.fetch.max.bytes") or 52_428_800,
            fetch_min_bytes=_count(given, "kafka.fetch.min.bytes", 1),
            fetch_max_wait_ms=_count(given, "kafka.fetch.max.wait.ms", 500),
            partition_fetch_bytes=positive(given, "kafka.max.partition.fetch.bytes") or 8_388_608,
            group_id=_group_id(given, starting),
            group_reset=_group_reset(given),
        )


ALL_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def _group_id(given: Mapping[str, str], starting: Limit) -> str | None:
    group = given.get("odradek.group.id")
    if group is not None and not group.strip():
        raise OptionError("option odradek.group.id is empty")
    if group is None and starting is Edge.GROUP:
        raise OptionError("startingOffsets is 'group': name the group in odradek.group.id")
    return group


def _group_reset(given: Mapping[str, str]) -> str:
    reset = given.get("odradek.group.reset", "earliest").strip().lower()
    if reset not in ("earliest", "latest", "none"):
        raise OptionError(f"odradek.group.reset is {reset!r}; give 'earliest', 'latest' or 'none'")
    return reset


def subscription(given: Mapping[str, str]) -> Subscription:
    """The one of subscribe, subscribePattern and assign that is given (lower-cased). Raises OptionError."""
    names = [name for name in ("assign", "subscribe", "subscribepattern") if name in given]
    if len(names) != 1:
        found = f"found {', '.join(names)}" if names else "found none"
        raise OptionError(f"give exactly one of the options subscribe, subscribePattern and assign; {found}")
    value = given[names[0]].strip()
    if not value:
        raise OptionError(f"option {names[0]} is empty")
    if names[0] == "subscribe":
        topics = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
        if not topics:
            raise OptionError("option subscribe names no topic")
        return Subscription(topics=topics)
    if names[0] == "subscribepattern":
        try:
            compile_java(value)
        except PatternError as error:
            raise OptionError(f"subscribePattern {value!r} can't be used as a regular expression: {error}") from None
        return Subscription(pattern=value)
    return Subscription(assignment=_assignment(value))


def _assignment(text: str) -> dict[str, tuple[int, ...]]:
    example = 'give for example {"topicA":[0,1],"topicB":[2,4]}'
    parsed = _json_object(text, "assign", example)
    assignment: dict[str, tuple[int, ...]] = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, list) or not all(type(p) is int and p >= 0 for p in partitions):
            raise OptionError(f"option assign: {topic!r} needs a list of partition numbers; {example}")
        assignment[topic] = tuple(dict.fromkeys(partitions))
    return assignment


def _limit(given: Mapping[str, str], side: str, default: Edge) -> Limit:
    """Precedence: one timestamp for all, then timestamps by partition, then offsets."""
    single = given.get(f"{side}timestamp")
    if single is not None:
        return ByTimestamp({}, _timestamp(single, f"{side}Timestamp"))
    by_timestamp = given.get(f"{side}offsetsbytimestamp")
    if by_timestamp is not None:
        return ByTimestamp(_by_partition(by_timestamp, f"{side}OffsetsByTimestamp"))
    offsets = given.get(f"{side}offsets")
    if offsets is None:
        return default
    lowered = offsets.strip().lower()
    if lowered in ("earliest", "latest") or (lowered == "group" and side == "starting"):
        return Edge(lowered)
    return ByOffset(_by_partition(offsets, f"{side}Offsets"))


def _check_batch_limits(starting: Limit, ending: Limit) -> None:
    if starting is Edge.LATEST:
        raise OptionError("starting offset can't be latest for batch queries on Kafka")
    if isinstance(starting, ByOffset) and LATEST in starting.offsets.values():
        raise OptionError("startingOffsets of a batch query can't be latest (-1) for a partition")
    if ending is Edge.EARLIEST:
        raise OptionError("ending offset can't be earliest for batch queries on Kafka")
    if isinstance(ending, ByOffset) and EARLIEST in ending.offsets.values():
        raise OptionError("endingOffsets of a batch query can't be earliest (-2) for a partition")


def _by_partition(text: str, option: str) -> dict[Partition, int]:
    example = 'give for example {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    found: dict[Partition, int] = {}
    for topic, partitions in _json_object(text, option, example).items():
        if not isinstance(partitions, dict):
            raise OptionError(f"option {option}: {topic!r} needs an object of partitions; {example}")
        for partition, value in partitions.items():
            if not partition.isdigit() or type(value) is not int:
                raise OptionError(f"option {option}: {topic!r}: {partition!r}: {value!r} is wrong; {example}")
            found[topic, int(partition)] = value
    return found


def _json_object(text: str, option: str, example: str) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise OptionError(f"option {option} is {text!r}; {example}")
    return parsed


def _timestamp(text: str, option: str) -> int:
    try:
        value = int(text.strip())
    except ValueError:
        value = -1
    if value < 0:
        raise OptionError(f"option {option} is {text!r}; give milliseconds since 1970-01-01 UTC")
    return value


def read_columns(given: Mapping[str, str], include_headers: bool) -> tuple[str, ...]:
    """The columns of a read: all, or those of the option ``columns``. Raises OptionError."""
    available = (*ALL_COLUMNS, "headers") if include_headers else ALL_COLUMNS
    text = given.get("columns")
    if text is None:
        return available
    by_name = {name.lower(): name for name in available}
    wanted = [part.strip().lower() for part in text.split(",") if part.strip()]
    unknown = [name for name in wanted if name not in by_name]
    if unknown or not wanted:
        raise OptionError(f"option columns is {text!r}; choose from {', '.join(available)}")
    return tuple(dict.fromkeys(by_name[name] for name in wanted))


def flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    """A true or false of lower-cased options. Raises OptionError."""
    text = given.get(name.lower())
    if text is None:
        return default
    if text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    raise OptionError(f"option {name} is {text!r}; give true or false")


def positive(given: Mapping[str, str], name: str) -> int | None:
    """A positive integer of lower-cased options, None without it. Raises OptionError."""
    text = given.get(name.lower())
    if text is None:
        return None
    if text.strip().isdigit() and int(text) > 0:
        return int(text)
    raise OptionError(f"option {name} is {text!r}; give a positive integer")


def _count(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return default
    if text.strip().isdigit():
        return int(text)
    raise OptionError(f"option {name} is {text!r}; give an integer of at least 0")


_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str, option: str) -> int:
    """A Spark duration such as ``15m``, ``500ms`` or ``2h``; a bare number is milliseconds."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or (match[2] and match[2] not in _UNITS_MS):
        raise OptionError(f"option {option} is {text!r}; give for example 500ms, 30s or 15m")
    return int(int(match[1]) * _UNITS_MS[match[2] or "ms"])
