"""From offset options to offsets: who exists, where a query starts and where a batch ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from spark_jobs.option_table import OptionError
from spark_jobs.options import EARLIEST, LATEST, ByOffset, Edge, Limit, Partition, ReadOptions


class TopicMetadata(Protocol):
    """What the driver asks the cluster. Every call may raise ApiError or OSError after its own retries."""

    def partitions(self, options: ReadOptions, *, tolerate_missing: bool = False) -> list[Partition]:
        """The partitions that the subscription names now, sorted; what is missing is an error or left out."""

    def offsets(self, wanted: Mapping[Partition, int]) -> dict[Partition, int]:
        """ListOffsets for -2 (earliest) or -1 (latest) by partition."""

    def offsets_by_timestamp(self, wanted: Mapping[Partition, int]) -> dict[Partition, int | None]:
        """First offset whose timestamp is at or after the given one, None when there is none."""

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Offsets of the query's consumer group, where it has some."""


def earliest(metadata: TopicMetadata, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Log start offsets."""
    return metadata.offsets(dict.fromkeys(partitions, EARLIEST))


def latest(metadata: TopicMetadata, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """High watermarks (last stable offsets when reading committed)."""
    return metadata.offsets(dict.fromkeys(partitions, LATEST))


def resolve(
    metadata: TopicMetadata,
    partitions: list[Partition],
    limit: Limit,
    *,
    ending: bool,
    strategy: str = "error",
    group_reset: str = "earliest",
) -> dict[Partition, int]:
    """Concrete offsets of a starting or ending option for exactly these partitions.

    Raises OptionError when an option by partition does not name exactly them, or when no record is at or after a
    starting timestamp and the strategy is ``error``, or when a group has no offset and nothing stands in for it.
    """
    if limit is Edge.GROUP:
        return _of_group(metadata, partitions, group_reset)
    if isinstance(limit, Edge):
        mark = EARLIEST if limit is Edge.EARLIEST else LATEST
        return metadata.offsets(dict.fromkeys(partitions, mark))
    if isinstance(limit, ByOffset):
        _check_names(limit.offsets, partitions, "Offsets", ending)
        marks = {p: offset for p, offset in limit.offsets.items() if offset in (EARLIEST, LATEST)}
        return {**limit.offsets, **(metadata.offsets(marks) if marks else {})}
    if limit.everywhere is not None:
        wanted = dict.fromkeys(partitions, limit.everywhere)
    else:
        _check_names(limit.timestamps, partitions, "OffsetsByTimestamp", ending)
        wanted = dict(limit.timestamps)
    return _by_timestamp(metadata, wanted, ending=ending, strategy=strategy)


def _of_group(metadata: TopicMetadata, partitions: list[Partition], reset: str) -> dict[Partition, int]:
    """Where the group stands; partitions without an offset as odradek.group.reset says."""
    found = metadata.committed(partitions)
    missing = [partition for partition in partitions if partition not in found]
    if missing and reset == "none":
        raise OptionError(
            f"the group of odradek.group.id has no offset of {_text(set(missing))}; set odradek.group.reset to "
            "'earliest' or 'latest' to start there"
        )
    instead = metadata.offsets(dict.fromkeys(missing, LATEST if reset == "latest" else EARLIEST)) if missing else {}
    return {partition: found.get(partition, instead.get(partition, 0)) for partition in partitions}


def _by_timestamp(
    metadata: TopicMetadata, wanted: Mapping[Partition, int], *, ending: bool, strategy: str
) -> dict[Partition, int]:
    found = metadata.offsets_by_timestamp(wanted)
    missing = [partition for partition, offset in found.items() if offset is None]
    if missing and not ending and strategy == "error":
        topic, partition = missing[0]
        raise OptionError(
            f"no offset matches the timestamp {wanted[missing[0]]} of {topic}-{partition}; set "
            "startingOffsetsByTimestampStrategy to 'latest' to start such partitions at their end"
        )
    ends = latest(metadata, missing) if missing else {}
    return {partition: ends[partition] if offset is None else offset for partition, offset in found.items()}


def _check_names(named: Mapping[Partition, int], partitions: list[Partition], option: str, ending: bool) -> None:
    side = "ending" if ending else "starting"
    if set(named) != set(partitions):
        raise OptionError(
            f"{side}{option} must name exactly the partitions of the query; "
            f"missing {_text(set(partitions) - set(named))}, unknown {_text(set(named) - set(partitions))}"
        )


def _text(partitions: set[Partition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions)) or "none"


def check_data_loss(
    metadata: TopicMetadata,
    start: Mapping[Partition, int],
    report: Callable[[str], None],
) -> dict[Partition, int]:
    """Starts moved forward to the log start where data is gone; ``report`` raises or warns (failOnDataLoss)."""
    if not start:
        return {}
    begins = earliest(metadata, start)
    moved = dict(start)
    for partition, offset in start.items():
        begin = begins.get(partition)
        if begin is None:
            report(f"{partition[0]}-{partition[1]} is gone; records from offset {offset} on may have been missed")
            del moved[partition]
        elif offset < begin:
            report(f"{partition[0]}-{partition[1]}: offsets {offset} to {begin - 1} are no longer there")
            moved[partition] = begin
    return moved
