"""Records of several partitions in one go, from each leader with one Fetch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker.http.console.api.reading import BROKER_TIMEOUT_MS
from log.errors import LogError
from log.records.record import Record, iter_records
from log.records.visibility import with_visibility
from log.topic_partition import TopicPartition
from network.client.connection import AuthenticationFailed, ConnectionFailed
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

if TYPE_CHECKING:
    from network.client.cluster_client import ClusterClient

MAX_VERSION = 12
"""The last that names topics; later ones have their ids."""
PARTITION_BYTES = 256 * 1024
ANSWER_BYTES = 4 * 1024 * 1024
BATCH_BYTES = 16 * 1024 * 1024
"""What a batch may hold when it is decompressed; of a larger one nothing is shown."""


@dataclass(slots=True)
class Fetched:
    """Records of one partition, from the wanted offset on, and the offset behind all that was looked at."""

    records: list[Record] = field(default_factory=list)
    next_offset: int = -1
    problem: str | None = None


def fetch(
    client: ClusterClient, positions: Mapping[TopicPartition, int], isolation: int
) -> dict[TopicPartition, Fetched]:
    """What the leaders have at the positions. Nothing is waited for: it is said to be there."""
    by_leader: dict[int, list[TopicPartition]] = {}
    found: dict[TopicPartition, Fetched] = {}
    for tp in positions:
        known = client.topic(tp.topic).partitions.get(tp.partition)
        if known is None or known.leader < 0:
            found[tp] = Fetched(problem="it has no leader at the moment")
        else:
            by_leader.setdefault(known.leader, []).append(tp)
    for leader, names in by_leader.items():
        try:
            found |= _from_leader(client, leader, {tp: positions[tp] for tp in names}, isolation)
        except AuthenticationFailed:
            raise
        except (ConnectionFailed, ApiError) as error:
            found |= {tp: Fetched(problem=f"its leader does not answer: {error}") for tp in names}
    return found


def _from_leader(
    client: ClusterClient, leader: int, positions: Mapping[TopicPartition, int], isolation: int
) -> dict[TopicPartition, Fetched]:
    topics: dict[str, list[FetchPartition]] = {}
    for tp, position in positions.items():
        wanted = FetchPartition(
            partition=tp.partition, fetch_offset=position, partition_max_bytes=PARTITION_BYTES
        )  # fmt: skip
        topics.setdefault(tp.topic, []).append(wanted)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=ANSWER_BYTES,
        isolation_level=isolation,
        topics=[FetchTopic(topic=name, partitions=wanted) for name, wanted in topics.items()],
    )
    response = client.call_broker(leader, request, BROKER_TIMEOUT_MS, max_version=MAX_VERSION)
    if response.error_code:
        raise ApiError(ErrorCode.of(response.error_code), None)
    found = {}
    for topic in response.responses:
        for answer in topic.partitions:
            tp = TopicPartition(topic.topic, answer.partition_index)
            if tp in positions:
                found[tp] = _read(answer, positions[tp])
    return found


def _read(answer: Any, position: int) -> Fetched:
    if answer.error_code:
        error = ErrorCode.of(answer.error_code)
        return Fetched(next_offset=position, problem=f"{error.message} ({error.name})")
    fetched = Fetched(next_offset=position)
    try:
        for next_offset, records in _batches(answer):
            fetched.records.extend(record for record in records if record.offset >= position)
            fetched.next_offset = next_offset
    except LogError as error:
        fetched.problem = f"what follows offset {fetched.next_offset} cannot be read: {error}"
    return fetched


def _batches(answer: Any) -> Iterator[tuple[int, list[Record]]]:
    """Each batch: the offset behind it, and its records; none of control batches and of aborted transactions, where
    the answer says which were."""
    aborted = ((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
    for batch, is_visible in with_visibility(answer.records or b"", aborted):
        yield batch.last_offset + 1, list(iter_records(batch, BATCH_BYTES)) if is_visible else []
