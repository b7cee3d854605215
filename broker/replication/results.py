"""What the replica manager takes and gives: plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from log.offset_metadata import LogOffsetMetadata
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from log.fetch_data import FetchIsolation
    from log.records.validation import Conversion

CONSUMER_REPLICA_ID = -1
DEBUGGING_REPLICA_ID = -2
FUTURE_REPLICA_ID = -3

NO_RECORD_ERRORS: Sequence[Any] = ()


class PartitionAppendResult:
    """Outcome of one partition of an append. Offsets are -1 when nothing was appended."""

    __slots__ = (
        "base_offset",
        "conversion",
        "error",
        "error_message",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
    )

    def __init__(
        self,
        error: ErrorCode,
        base_offset: int = -1,
        last_offset: int = -1,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: Sequence[Any] = NO_RECORD_ERRORS,
        error_message: str | None = None,
    ) -> None:
        self.error = error
        self.conversion: Conversion | None = None
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors
        self.error_message = error_message

    def __repr__(self) -> str:
        return f"PartitionAppendResult({self.error.name}, {self.base_offset}..{self.last_offset})"


class ClientMetadata(NamedTuple):
    """Who a consumer's fetch comes from; what a replica selector may look at."""

    rack: str
    client_id: str
    host: str
    principal: str
    listener_name: str


class FetchParams:
    """What holds for a whole fetch."""

    __slots__ = (
        "client",
        "hard_max_bytes",
        "isolation",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "only_leader",
        "replica_epoch",
        "replica_id",
        "version",
    )

    def __init__(
        self,
        version: int,
        replica_id: int,
        replica_epoch: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: FetchIsolation,
        client: ClientMetadata | None = None,
    ) -> None:
        self.version = version
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation = isolation
        self.client = client
        # A consumer old enough not to know of followers must be served by the leader; so must followers.
        self.only_leader = replica_id >= 0 or (replica_id != FUTURE_REPLICA_ID and client is None)
        self.hard_max_bytes = version <= 2

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0


class FetchPartitionData(NamedTuple):
    """What a fetch asks of one partition: in a session on either side, and of the log.

    Epochs are -1 when the request did not give them.
    """

    topic_id: bytes
    fetch_offset: int
    log_start_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int = -1


class EpochEndOffset(NamedTuple):
    """A leader epoch and the offset after its last record; both -1 when undefined."""

    epoch: int
    end_offset: int


class LogReadResult:
    """Outcome of reading one partition. `records` is a file range that whoever sends it must release, or `None`."""

    __slots__ = (
        "aborted_transactions",
        "diverging_epoch",
        "error",
        "fetch_offset_metadata",
        "high_watermark",
        "last_stable_offset",
        "leader_log_end_offset",
        "log_start_offset",
        "preferred_read_replica",
        "records",
        "size",
    )

    def __init__(
        self,
        error: ErrorCode = ErrorCode.NONE,
        records: Any = None,
        fetch_offset_metadata: LogOffsetMetadata | None = None,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        leader_log_end_offset: int = -1,
        aborted_transactions: Sequence[Any] | None = None,
        diverging_epoch: EpochEndOffset | None = None,
        preferred_read_replica: int = -1,
    ) -> None:
        self.error = error
        self.records = records
        self.size: int = 0 if records is None else records.size
        self.fetch_offset_metadata = fetch_offset_metadata
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.leader_log_end_offset = leader_log_end_offset
        self.aborted_transactions = aborted_transactions
        self.diverging_epoch = diverging_epoch
        self.preferred_read_replica = preferred_read_replica

    @property
    def is_nothing(self) -> bool:
        """No records, and no error, divergence or other replica to tell of."""
        return (
            not self.size
            and self.error is ErrorCode.NONE
            and self.diverging_epoch is None
            and self.preferred_read_replica < 0
        )

    def release(self) -> None:
        """Give the records back unsent."""
        records = self.records
        if records is not None:
            self.records = None
            self.size = 0
            records.release()


class DeleteRecordsResult(NamedTuple):
    error: ErrorCode
    requested_offset: int = -1
    low_watermark: int = -1


FetchEntry = tuple[TopicPartition, FetchPartitionData]
