"""What an append answers."""

from __future__ import annotations

from dataclasses import dataclass

from log.records.validation import Conversion


@dataclass(slots=True)
class LogAppendInfo:
    """Offsets, timestamps and sizes of one append to one partition.

    `first_offset` and `last_offset` are -1 if nothing was appended. `max_timestamp` is the largest record timestamp
    in ms, and `offset_of_max_timestamp` the last offset of the first batch that has it. `log_append_time` is -1 unless
    the topic uses LogAppendTime. `valid_bytes` are the bytes written. A `duplicate` is a batch that was written before:
    the offsets are those of then, and nothing was written. `conversion`: see `ValidatedRecords`.
    """

    first_offset: int = -1
    last_offset: int = -1
    max_timestamp: int = -1
    offset_of_max_timestamp: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    last_leader_epoch: int = -1
    valid_bytes: int = 0
    duplicate: bool = False
    conversion: Conversion | None = None

    @property
    def message_count(self) -> int:
        """Offsets taken by the append."""
        return self.last_offset - self.first_offset + 1 if self.first_offset >= 0 else 0
