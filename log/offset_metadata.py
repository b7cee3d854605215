"""Offsets with what a log knows about them."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN_OFFSET = -1


class LogOffsetMetadata(NamedTuple):
    """An offset and the place of its batch: base offset of the segment and position in it, both -1 if unknown."""

    message_offset: int
    segment_base_offset: int = -1
    relative_position: int = -1

    def on_older_segment(self, that: LogOffsetMetadata) -> bool:
        """Whether both places are known and this one is in an earlier segment."""
        return 0 <= self.segment_base_offset < that.segment_base_offset


class LogOffsetSnapshot(NamedTuple):
    """A log's four offsets at one moment."""

    log_start_offset: int
    log_end_offset: LogOffsetMetadata
    high_watermark: LogOffsetMetadata
    last_stable_offset: LogOffsetMetadata


class TimestampAndOffset(NamedTuple):
    """A record found by time: its timestamp in ms (-1: not a record), offset, and leader epoch (None: unknown)."""

    timestamp: int
    offset: int
    leader_epoch: int | None = None
