"""Exceptions of the log package.

Each carries the name of the Kafka error that answers it (`error_name`), so that an upper floor can turn it into an
error code without this package knowing the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import ClassVar, NamedTuple, Self


class RecordFault(Enum):
    """Which of Kafka's counters of refused records an error adds to."""

    MAGIC = "InvalidMagicNumberRecordsPerSec"
    CHECKSUM = "InvalidMessageCrcRecordsPerSec"
    OFFSET_OR_SEQUENCE = "InvalidOffsetOrSequenceRecordsPerSec"
    NO_KEY = "NoKeyCompactedTopicRecordsPerSec"


class LogError(Exception):
    """Base of all errors of this package."""

    error_name: ClassVar[str] = "UNKNOWN_SERVER_ERROR"
    faults: Mapping[RecordFault, int] = {}
    """What the records of a producer were refused for, and how many of them, where Kafka counts it."""

    def counted_as(self, fault: RecordFault, records: int = 1) -> Self:
        """The same error, counted."""
        self.faults = {**self.faults, fault: records}
        return self


class CorruptRecordError(LogError):
    """Bytes that cannot be a record batch: a wrong checksum, an impossible size or an unknown magic."""

    error_name = "CORRUPT_MESSAGE"


class RecordError(NamedTuple):
    """What is wrong with one record of a batch: its index in the batch and why."""

    batch_index: int
    message: str


class InvalidRecordError(LogError):
    """A batch or some of its records break a rule of the format or of the topic.

    `record_errors` names the records when the fault lies in single records.
    """

    error_name = "INVALID_RECORD"

    def __init__(self, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.record_errors = tuple(record_errors)


class InvalidTimestampError(InvalidRecordError):
    """At least one record has a timestamp that the topic does not accept."""

    error_name = "INVALID_TIMESTAMP"


class DecompressionError(LogError):
    """A compressed payload cannot be read."""

    error_name = "UNKNOWN_SERVER_ERROR"


class UnknownCompressionError(LogError):
    """The codec number of a batch is not assigned."""

    error_name = "UNKNOWN_SERVER_ERROR"


class UnsupportedCompressionTypeError(LogError):
    """The codec exists but this reader or format cannot use it (for example zstd in an old message format)."""

    error_name = "UNSUPPORTED_COMPRESSION_TYPE"


class RecordTooLargeError(LogError):
    """A batch is larger than `max.message.bytes`, or expands beyond the decompression limit."""

    error_name = "MESSAGE_TOO_LARGE"


class RecordBatchTooLargeError(LogError):
    """The data of one append is larger than a segment may be."""

    error_name = "RECORD_LIST_TOO_LARGE"


class OffsetOutOfRangeError(LogError):
    """An offset lies outside the log, or outside what the caller may ask for."""

    error_name = "OFFSET_OUT_OF_RANGE"


class OffsetsOutOfOrderError(LogError):
    """A follower or a recovery met offsets that do not increase."""

    error_name = "UNKNOWN_SERVER_ERROR"


class UnexpectedAppendOffsetError(LogError):
    """Replicated data starts below the log end offset.

    `first_offset` and `last_offset` are those of the refused data.
    """

    error_name = "UNKNOWN_SERVER_ERROR"

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class OutOfOrderSequenceError(LogError):
    """The sequence number of a producer's batch does not follow its last one."""

    error_name = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class InvalidProducerEpochError(LogError):
    """A producer writes with an epoch older than the one known here."""

    error_name = "INVALID_PRODUCER_EPOCH"


class InvalidTxnStateError(LogError):
    """A transactional batch without a verified transaction, or a plain batch inside an open one."""

    error_name = "INVALID_TXN_STATE"


class TransactionCoordinatorFencedError(LogError):
    """A transaction marker of an older coordinator epoch."""

    error_name = "TRANSACTION_COORDINATOR_FENCED"


class InconsistentTopicIdError(LogError):
    """The partition directory belongs to a topic with another id."""

    error_name = "INCONSISTENT_TOPIC_ID"


class LogDirNotFoundError(LogError):
    """The named log directory is not one of this broker's, or is offline."""

    error_name = "LOG_DIR_NOT_FOUND"


class StorageError(LogError):
    """An I/O error; the log directory goes offline. `directory` is the log directory, when known."""

    error_name = "KAFKA_STORAGE_ERROR"

    def __init__(self, message: str, directory: str | None = None) -> None:
        super().__init__(message)
        self.directory = directory


class CorruptCheckpointError(StorageError):
    """A checkpoint file does not parse. The message names the file, the line and what was expected."""


class CorruptSnapshotError(LogError):
    """A producer snapshot does not parse; the loader deletes it and takes the next older one."""


class CorruptIndexError(LogError):
    """An index file disagrees with its segment or with itself; the segment is recovered."""


class InconsistentMetadataError(LogError):
    """`meta.properties` or `partition.metadata` does not fit this broker, or does not parse."""


class LogCleaningAbortedError(LogError):
    """A cleaning was cancelled by a truncation, a deletion or the shutdown."""
