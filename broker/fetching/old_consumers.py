"""What old consumers get: records in the format their Fetch version knows.

Fetch 0 and 1 know messages of magic 0, 2 and 3 those of magic 1; zstd is known from version 10 on (KIP-110).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from log.errors import LogError
from log.files.file_range import LogFileRange
from log.records.batch import MAGIC_OFFSET
from log.records.down_conversion import Convert, is_too_new
from log.records.validation import Conversion
from network.protocol.errors import ErrorCode, error_of
from network.protocol.messages.fetch import PartitionData

if TYPE_CHECKING:
    from broker.replication.replica_manager import ReplicaManager
    from log.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

FIRST_VERSION_WITH_ZSTD = 10
FIRST_VERSION_OF_MAGIC_2 = 4


@dataclass(frozen=True, slots=True)
class ToConvert:
    """Records of one partition's answer that go through the conversion."""

    answer: PartitionData
    topic_partition: TopicPartition
    magic: int
    first_offset: int
    refuse: Callable[[], None] | None = None
    """The topic forbids conversion: records that would need it are an error, of which this tells. To see it, they are
    read."""


def to_convert(
    answer: PartitionData,
    tp: TopicPartition,
    version: int,
    first_offset: int,
    manager: ReplicaManager,
    on_too_old: Callable[[str], None],
) -> ToConvert | None:
    """Whether the records of `answer` go through the conversion before a fetch of `version` is answered.

    What such a client cannot have of the topic is replaced by an error, and `on_too_old` told what would help; so are
    the records of a partition that has gone since they were read, as nobody knows any more what it allows. There is
    nothing to do from `FIRST_VERSION_WITH_ZSTD` on. Any thread: of the records it reads the first one's format at most.
    """
    if answer.error_code:
        return None
    partition = manager.partitions.get(tp)
    log = None if partition is None else partition.log
    if log is None:
        if answer.records:
            _fail(answer, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return None
    if log.config.compression_type == "zstd":
        _fail(answer, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        on_too_old("set another compression.type than zstd on the topic")
        return None
    if version >= FIRST_VERSION_OF_MAGIC_2:
        return None
    records: Any = answer.records
    if not isinstance(records, LogFileRange) or not records.size:
        return None
    magic = 0 if version <= 1 else 1
    if log.config.message_downconversion_enable:
        return ToConvert(answer, tp, magic, first_offset)

    def refuse() -> None:
        _fail(answer, ErrorCode.UNSUPPORTED_VERSION)
        on_too_old("set message.downconversion.enable=true on the topic")

    if _begins_too_new(records, magic):
        refuse()
        return None
    return ToConvert(answer, tp, magic, first_offset, refuse)


def _begins_too_new(records: LogFileRange, magic: int) -> bool:
    first = os.pread(records.fd, 1, records.position + MAGIC_OFFSET) if records.size > MAGIC_OFFSET else b""
    return bool(first) and first[0] > magic


def convert_answer(each: ToConvert, convert: Convert, manager: ReplicaManager) -> Conversion | None:
    """Replace the records of an answer by converted ones, or by an error. Returns what it took; None for nothing.

    A log that has been cut meanwhile below the end of the records is such an error too.
    """
    answer, tp = each.answer, each.topic_partition
    records: Any = answer.records
    began_ns = manager.clock.monotonic_ns()
    try:
        if each.refuse is not None:
            if is_too_new(records.read(), each.magic):
                each.refuse()
            return None
        converted = convert(records, each.magic, each.first_offset)
    except (LogError, EOFError) as error:
        code, _ = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            logger.error("%s: records cannot be converted for an old consumer: %s", tp, error)
        _fail(answer, code)
        return None
    if converted is None:
        return None
    records.release()
    answer.records = converted.records
    manager.metrics.fetch_converted(tp.topic, converted.rewritten)
    return Conversion(converted.rewritten, manager.clock.monotonic_ns() - began_ns, len(converted.records))


def withhold(each: ToConvert) -> None:
    """Answer without the records, as if there were none yet: the consumer asks again."""
    _drop_records(each.answer)


def _drop_records(answer: PartitionData) -> None:
    release = getattr(answer.records, "release", None)
    if release is not None:
        release()
    answer.records = b""


def _fail(answer: PartitionData, code: ErrorCode) -> None:
    _drop_records(answer)
    answer.error_code = code
    answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
