"""What old consumers get: records in the format their Fetch version knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from log.records.old_formats import down_converted, iter_entries
from log.records.validation import Conversion
from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import PartitionData

if TYPE_CHECKING:
    from broker.replication.replica_manager import ReplicaManager
    from log.topic_partition import TopicPartition

_MAGIC_AT, _CODEC_AT = 16, 22
_HEADER_SIZE = 61
_ZSTD = 4
FIRST_VERSION_WITH_ZSTD = 10
FIRST_VERSION_OF_MAGIC_2 = 4


def convert_answer(
    answer: PartitionData,
    tp: TopicPartition,
    version: int,
    manager: ReplicaManager,
    on_too_old: Callable[[str], None],
) -> Conversion | None:
    """Convert the records of `answer` in place if `version` is too old for them, or replace them by an error, and tell
    `on_too_old` what would help in the topic.

    Returns what a conversion took. There is nothing to do from `FIRST_VERSION_WITH_ZSTD` on.
    """
    partition = manager.partitions.get(tp)
    log = None if partition is None else partition.log
    if log is None:
        return None
    if log.config.compression_type == "zstd":
        _fail(answer, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        on_too_old("set another compression.type than zstd on the topic")
        return None
    if version >= FIRST_VERSION_OF_MAGIC_2:
        return None
    records: Any = answer.records
    if records is None or not len(records):
        return None
    magic = 0 if version <= 1 else 1
    data = records if isinstance(records, bytes) else records.read()
    if len(data) <= _MAGIC_AT or data[_MAGIC_AT] <= magic:
        return None
    if not log.config.message_downconversion_enable:
        _fail(answer, ErrorCode.UNSUPPORTED_VERSION)
        on_too_old("set message.downconversion.enable=true on the topic")
        return None
    began_ns = manager.clock.monotonic_ns()
    batches = list(down_converted(iter_entries(data), magic))
    converted = b"".join(piece for piece, _ in batches)
    if not isinstance(records, bytes):
        records.release()
    answer.records = converted
    count = sum(records for _, records in batches)
    manager.metrics.fetch_converted(tp.topic, count)
    return Conversion(count, manager.clock.monotonic_ns() - began_ns, len(converted))


def _fail(answer: PartitionData, code: ErrorCode) -> None:
    release = getattr(answer.records, "release", None)
    if release is not None:
        release()
    answer.records = b""
    answer.error_code = code
    answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
