"""Putting cleaned segments in the place of old ones, so that a crash at any step loses nothing.

1. The new files are complete and durable under `.cleaned` names (the caller has done that).
2. They are renamed to `.swap`, highest base offset first: from now on a restart completes the swap.
3. The new segments enter the map, and the old files are renamed to `.deleted`.
4. The suffix goes, and the directory is synced.
5. Producer snapshots of base offsets that are gone are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from log.files.checkpoint import fsync_directory
from log.files.names import SWAP_SUFFIX
from log.files.segment import LogSegment
from log.partition_log import PartitionLog
from log.truncation import delete_producer_snapshots


def replace_segments(
    log: PartitionLog,
    new: Sequence[LogSegment],
    old: Sequence[LogSegment],
    on_step: Callable[[str], None] = lambda step: None,
) -> None:
    """Swaps `new`, whose files end in `.cleaned`, for `old`. Raises OSError.

    `on_step` is told each step's name as it is done; tests crash there.
    """
    with log.lock:
        segments = log.local.segments
        new = sorted(new, key=lambda segment: segment.base_offset)
        old = sorted(
            (segment for segment in old if segments.get(segment.base_offset) is segment),
            key=lambda segment: segment.base_offset,
        )
        for segment in reversed(new):
            segment.change_suffix(SWAP_SUFFIX)
            on_step("swap")
        new_bases = {segment.base_offset for segment in new}
        for segment in reversed(new):
            segments.add(segment)
        for segment in old:
            if segment.base_offset not in new_bases:
                segments.remove(segment.base_offset)
        for segment in old:
            log.local.delete_files([segment], asynchronously=True)
            on_step("deleted")
        for segment in new:
            segment.change_suffix("")
            on_step("renamed")
        fsync_directory(log.directory)
        # Positions in old files are of no use any more.
        log.update_high_watermark(log.high_watermark)
        log.update_first_unstable_offset()
        delete_producer_snapshots(log, [segment for segment in old if segment.base_offset not in new_bases])
        on_step("done")
