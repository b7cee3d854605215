"""What of a Fetch answer a consumer may see: no control batches, nothing of aborted transactions (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from log.records.batch import Buffer, RecordBatch
from log.records.old_formats import LegacyBatch, iter_entries


def with_visibility(
    records: Buffer, aborted: Iterable[tuple[int, int]]
) -> Iterator[tuple[RecordBatch | LegacyBatch, bool]]:
    """The complete batches, each with whether its records may be seen.

    `aborted` are the first offset and the producer id of each aborted transaction, as the answer names them; none to a
    reader of uncommitted records. Raises what `iter_entries` raises.
    """
    waiting = sorted(aborted, reverse=True)
    open_ids: set[int] = set()
    for batch in iter_entries(records):
        while waiting and waiting[-1][0] <= batch.last_offset:
            open_ids.add(waiting.pop()[1])
        if batch.is_control:
            open_ids.discard(batch.producer_id)
            yield batch, False
        else:
            yield batch, not (batch.is_transactional and batch.producer_id in open_ids)
