"""The state of a cluster as clients can see it, for ``odradek cluster health``: what is asked, and how bad it is.

Everything comes over the protocol, so it works on clusters of Apache Kafka too. How far a replica is behind is the
difference between its log end offset and the leader's; a broker tells its own to a request in the name of the debugging
replica (-2), which need not go to the leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from broker.cli.errors import CommandError
from broker.cli.log_dirs import directories_of
from broker.cli.reassignments import ongoing
from broker.config.admin import TOPIC_RESOURCE
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.client.cluster_metadata import ClusterMetadata, PartitionMetadata
from network.client.connection import ConnectionFailed
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from network.protocol.messages.metadata import MetadataRequest

_LATEST = -1
_DEBUGGING_REPLICA = -2
_TIMEOUT_MS = 5_000
# Topics of one DescribeConfigs, partitions of one ListOffsets: so that no request gets too large.
_AT_ONCE = 1_000
_NAMED = 5
_FORBIDDEN = "no permission for the cluster (CLUSTER_AUTHORIZATION_FAILED); health needs describe on it"


class Severity(IntEnum):
    """What a monitor makes of it; the values are the exit codes of `cluster health`."""

    OK = 0
    WARNING = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """From when on something is worth a warning or worse; percentages."""

    disk_warning: int
    disk_critical: int
    skew_warning: int
    brokers: int = 0
    """So many brokers have to run, and each has to know all of them."""


@dataclass(frozen=True, slots=True)
class Disk:
    """One log directory: used part of its disk in percent (None: not told), and its error."""

    broker: int
    directory: str
    used: int | None
    usable_bytes: int | None
    error: bool


@dataclass(frozen=True, slots=True)
class Lag:
    """How many records the log end of a replica is behind the leader's."""

    partition: TopicPartition
    broker: int
    records: int


@dataclass(slots=True)
class Picture:
    """What was found."""

    metadata: ClusterMetadata
    min_isr: dict[str, int]
    reassigning: list[TopicPartition] = field(default_factory=list)
    disks: list[Disk] = field(default_factory=list)
    lags: list[Lag] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)
    """Brokers that are registered and do not answer."""
    seen: dict[int, frozenset[int]] = field(default_factory=dict)
    """What each broker that answers tells clients of the live brokers; one that has just started does not know all."""

    @property
    def partitions(self) -> dict[TopicPartition, PartitionMetadata]:
        return {
            TopicPartition(name, number): each
            for name, topic in sorted(self.metadata.topics.items())
            for number, each in sorted(topic.partitions.items())
        }

    @property
    def missing(self) -> list[int]:
        """Brokers that hold replicas and are not registered."""
        named = {broker for each in self.partitions.values() for broker in each.replicas}
        return sorted(named - self.metadata.brokers.keys())

    @property
    def behind(self) -> list[int]:
        """Brokers that do not know all live brokers (yet)."""
        known = frozenset(self.metadata.brokers).union(*self.seen.values())
        return sorted(broker for broker, seen in self.seen.items() if seen != known)

    @property
    def offline(self) -> list[TopicPartition]:
        return [tp for tp, each in self.partitions.items() if each.leader < 0]

    @property
    def under_replicated(self) -> list[TopicPartition]:
        return [tp for tp, each in self.partitions.items() if len(each.isr) < len(each.replicas)]

    @property
    def under_min_isr(self) -> list[TopicPartition]:
        """A partition with fewer replicas than min.insync.replicas asks for all that it has, as brokers do."""
        return [
            tp
            for tp, each in self.partitions.items()
            if len(each.isr) < min(self.min_isr.get(tp.topic, 1), len(each.replicas))
        ]

    @property
    def not_preferred(self) -> list[TopicPartition]:
        """Partitions that another than the first of their replicas leads, although that one is in sync."""
        return [
            tp
            for tp, each in self.partitions.items()
            if each.replicas and each.leader not in (-1, each.replicas[0]) and each.replicas[0] in each.isr
        ]

    @property
    def leaders(self) -> dict[int, int]:
        """How many partitions each live broker leads."""
        count = dict.fromkeys(sorted(self.metadata.brokers), 0)
        for each in self.partitions.values():
            if each.leader in count:
                count[each.leader] += 1
        return count

    @property
    def largest_lag(self) -> Lag | None:
        return max(self.lags, key=lambda lag: lag.records, default=None)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of what is wrong."""

    severity: Severity
    text: str


def look(client: ClusterClient) -> Picture:
    """Ask everything. Raises CommandError, ApiError and OSError where nobody answers at all, or not to this user; a
    single broker that does not answer is part of the picture."""
    metadata = client.metadata()
    picture = Picture(metadata, _min_isr(client, sorted(metadata.topics)))
    if metadata.controller_id in metadata.brokers:
        try:
            picture.reassigning = sorted(ongoing(client))
        except (ApiError, ConnectionFailed) as error:
            if isinstance(error, ApiError) and error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise CommandError(_FORBIDDEN) from None
            picture.silent.append(metadata.controller_id)
    ends: dict[TopicPartition, dict[int, int]] = {}
    partitions = picture.partitions
    for broker in sorted(metadata.brokers):
        try:
            seen = ClusterMetadata.of(client.call_broker(broker, MetadataRequest(topics=[]), _TIMEOUT_MS))
            picture.seen[broker] = frozenset(seen.brokers)
            picture.disks += _disks(client, broker)
            held = [tp for tp, each in partitions.items() if broker in each.replicas and each.leader >= 0]
            for tp, end in _ends(client, broker, held).items():
                ends.setdefault(tp, {})[broker] = end
        except (ApiError, CommandError, ConnectionFailed):
            picture.silent = sorted({*picture.silent, broker})
    for tp, by_broker in ends.items():
        led_to = by_broker.pop(partitions[tp].leader, None)
        if led_to is not None:
            picture.lags += [Lag(tp, broker, max(0, led_to - end)) for broker, end in by_broker.items()]
    return picture


def findings(picture: Picture, limits: Limits) -> list[Finding]:
    """What is wrong, the worst first."""
    found = []

    def tell(severity: Severity, text: str, about: Iterable[object] = ()) -> None:
        named = list(map(str, about))
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        names = f": {', '.join(named[:_NAMED])}{more}" if named else ""
        found.append(Finding(severity, f"{text}{names}"))

    if picture.metadata.controller_id not in picture.metadata.brokers:
        tell(Severity.CRITICAL, "no controller")
    if picture.offline:
        tell(Severity.CRITICAL, f"{_count(picture.offline)} without leader", picture.offline)
    if picture.silent:
        tell(Severity.CRITICAL, "brokers that do not answer", picture.silent)
    offline = set(picture.offline)
    below = [tp for tp in picture.under_min_isr if tp not in offline]
    if below:
        tell(Severity.CRITICAL, f"{_count(below)} under min.insync.replicas", below)
    running = len(picture.metadata.brokers)
    if running < limits.brokers:
        tell(Severity.CRITICAL, f"{running} of {limits.brokers} brokers run")
    if picture.behind:
        tell(Severity.WARNING, "brokers that do not know all others", picture.behind)
    if picture.missing:
        tell(Severity.WARNING, "brokers that hold replicas and are not running", picture.missing)
    if picture.under_replicated:
        tell(Severity.WARNING, f"{_count(picture.under_replicated)} under-replicated", picture.under_replicated)
    for disk in picture.disks:
        where = f"{disk.directory} of broker {disk.broker}"
        if disk.error:
            tell(Severity.CRITICAL, f"log directory {where} has failed")
        elif disk.used is not None and disk.used >= limits.disk_warning:
            severity = Severity.CRITICAL if disk.used >= limits.disk_critical else Severity.WARNING
            tell(severity, f"disk of {where} is {disk.used} % full")
    skew = _skew(picture)
    if skew > limits.skew_warning:
        text = f"{skew} % of the partitions are not led by their preferred replica; `odradek elect-leaders --all`"
        tell(Severity.WARNING, text)
    return sorted(found, key=lambda finding: -finding.severity)


def _skew(picture: Picture) -> int:
    """Percent of the partitions whose preferred leader could lead and does not."""
    return round(100 * len(picture.not_preferred) / max(1, len(picture.partitions)))


def _count(partitions: list[TopicPartition]) -> str:
    return f"{len(partitions)} partition{'' if len(partitions) == 1 else 's'}"


def _min_isr(client: ClusterClient, topics: list[str]) -> dict[str, int]:
    found: Mapping[str, int] = {}
    for first in range(0, len(topics), _AT_ONCE):
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=["min.insync.replicas"]
                )
                for name in topics[first : first + _AT_ONCE]
            ]
        )
        results = client.call_any(request).results
        found = {**found, **{each.resource_name: int(entry.value) for each in results for entry in each.configs}}
    return dict(found)


def _disks(client: ClusterClient, broker: int) -> list[Disk]:
    found = []
    for result in directories_of(client, broker, {}):
        known = result.total_bytes > 0 and result.usable_bytes >= 0
        used = round(100 * (1 - result.usable_bytes / result.total_bytes)) if known else None
        usable = result.usable_bytes if known else None
        found.append(Disk(broker, result.log_dir, used, usable, bool(result.error_code)))
    return found


def _ends(client: ClusterClient, broker: int, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Log end offsets of the replicas on a broker; those that it does not tell are left out."""
    ends: dict[TopicPartition, int] = {}
    for first in range(0, len(partitions), _AT_ONCE):
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for tp in partitions[first : first + _AT_ONCE]:
            asked = ListOffsetsPartition(partition_index=tp.partition, timestamp=_LATEST)
            topics.setdefault(tp.topic, []).append(asked)
        request = ListOffsetsRequest(
            replica_id=_DEBUGGING_REPLICA,
            topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        answer = client.call_broker(broker, request, _TIMEOUT_MS)
        for topic in answer.topics:
            for each in topic.partitions:
                if not each.error_code:
                    ends[TopicPartition(topic.name, each.partition_index)] = each.offset
    return ends
