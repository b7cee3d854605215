"""What a read of a log is for a reader of an older format: converted, or as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from log.errors import UnsupportedCompressionTypeError
from log.files.file_range import LogFileRange
from log.records.batch import MAGIC_OFFSET, Buffer
from log.records.old_formats import down_converted, iter_entries


class Source(Protocol):
    """A range of a log file."""

    @property
    def fd(self) -> int: ...

    @property
    def position(self) -> int: ...

    @property
    def size(self) -> int: ...

    def read(self) -> bytes: ...


class Converted(NamedTuple):
    """Records in another format, and how many of them had to be rewritten for it."""

    records: bytes | LogFileRange
    rewritten: int


Convert = Callable[[Source, int, int], Converted | None]
"""What `convert_here` does, somewhere."""


def convert_here(source: Source, magic: int, first_offset: int) -> Converted | None:
    """The records of `source` for a reader that knows formats up to `magic` and asked for `first_offset`; None if it
    can read them as they are.

    As in Kafka there are no more bytes than before, or than the first batch has: what does not fit is cut off, in the
    midst of a message. Raises a log error where records cannot be read, and UnsupportedCompressionTypeError where the
    first batch has a codec that the format does not. One further behind ends what is converted: the reader hears of it
    when it gets there.
    """
    data = source.read()
    if not is_too_new(data, magic):
        return None
    pieces, count = [], 0
    for piece, records in converted_pieces(data, magic, first_offset):
        pieces.append(piece)
        count += records
    return Converted(b"".join(pieces), count)


def converted_pieces(data: Buffer, magic: int, first_offset: int) -> Iterator[tuple[bytes, int]]:
    """The converted batches, and how many records were rewritten for each; see `convert_here`."""
    done, limit = 0, len(data)
    try:
        for piece, records in down_converted(iter_entries(data), magic, first_offset):
            limit = limit if done else max(limit, len(piece))
            yield piece[: limit - done], records
            done += len(piece)
            if done >= limit:
                return
    except UnsupportedCompressionTypeError:
        if not done:
            raise


def is_too_new(data: Buffer, magic: int) -> bool:
    """Whether there is a batch of a format after `magic`, be it one that is cut off."""
    if len(data) <= MAGIC_OFFSET:
        return False
    return data[MAGIC_OFFSET] > magic or any(entry.magic > magic for entry in iter_entries(data))
