"""What a read of a log asks for and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from log.files.file_range import LogFileRange
from log.files.txn_index import AbortedTxn
from log.offset_metadata import LogOffsetMetadata


class FetchIsolation(IntEnum):
    """How far a reader may see: the exclusive upper bound of a read."""

    LOG_END = 0
    HIGH_WATERMARK = 1
    TXN_COMMITTED = 2


class EmptyRange:
    """A range of no bytes: there is no file behind it."""

    fd = -1
    position = 0
    size = 0

    def read(self) -> bytes:
        return b""

    def release(self) -> None:
        """Nothing to give back."""

    def __len__(self) -> int:
        return 0


EMPTY_RANGE = EmptyRange()


@dataclass(slots=True)
class FetchDataInfo:
    """Where the data starts, and the data: a range to be released exactly once.

    `aborted_transactions` is None unless asked for by TXN_COMMITTED. `first_entry_incomplete`: the limit cut the first
    batch, so the range holds no whole batch.
    """

    fetch_offset_metadata: LogOffsetMetadata
    records: LogFileRange | EmptyRange
    first_entry_incomplete: bool = False
    aborted_transactions: Sequence[AbortedTxn] | None = None
