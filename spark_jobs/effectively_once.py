"""Writes that a task or a query may repeat and a reader of committed records sees once.

Each task writes in a transaction of its own, whose transactional id is that of the query and the task's number. With
the records it commits a marker, an offset of a consumer group of the same name: the number of the batch, and what was
written. The tasks only prepare; the driver commits their transactions when all of them are there. A task that is
repeated first takes over its transactional id, which ends what earlier attempts left and refuses them from then on; if
the marker then says that the batch is committed, it compares the rows that it was given with what the marker says, and
writes nothing.

Rows are kept apart by task, so a batch that is repeated must be cut into tasks in the same way. That is checked before
anything is committed: by the number and a checksum of the rows of every task that is repeated; and, as tasks that are
not there any more can't tell, by the number of tasks, which the driver writes down (in a group of the query's name)
before it commits the first transaction.
"""

from __future__ import annotations

import contextlib
import json
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from network.client.cluster_client import ClusterClient
from network.client.group_offsets import Committed, commit_offsets, fetch_offsets
from network.protocol.errors import ApiError, ErrorCode
from spark_jobs.encode import records as enc
from spark_jobs.encode.encoder import Slices
from spark_jobs.options import Partition
from spark_jobs.transaction import Transaction, TransactionError
from spark_jobs.write_options import WriteOptions
from timer.clock import Clock

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
_BACKOFF_MS = 20
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_CURE = "run the query with the options and the plan of its last run once more"


class ReplayError(Exception):
    """A batch that is repeated does not hold what its first run wrote: nothing of it is committed."""


@dataclass(frozen=True, slots=True)
class Marker:
    """What a task, or the driver, last committed, and which topic the offset is kept under.

    The offset is that of the next batch, so 0 is the place of a marker before there is one.
    """

    batch: int
    topic: str
    records: int = 0
    checksum: int = 0
    tasks: int = 0

    def text(self) -> str:
        """As metadata of an offset."""
        return json.dumps({"records": self.records, "checksum": self.checksum, "tasks": self.tasks})


@dataclass(frozen=True, slots=True)
class Place:
    """Which task of which batch this is."""

    write: str
    batch: int
    task: int

    @property
    def transactional_id(self) -> str:
        """Of the task, whatever its attempt; its consumer group has the same name."""
        return f"{self.write}-{self.task}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a task hands to the driver: a transaction to commit, unless it had nothing to write."""

    place: Place
    producer_id: int = -1
    producer_epoch: int = -1
    topic: str | None = None


def place_of(options: WriteOptions, context: Any) -> Place:
    """The place of the task that Spark runs here. Raises ReplayError where nothing names the write."""
    query = context.getLocalProperty(QUERY_ID)
    name = options.write_id
    if query is None and name is None:
        raise ReplayError(
            "odradek.delivery is effectively-once and this is no streaming query: name the write in odradek.write.id, "
            "and use the name again only to repeat it"
        )
    write = "-".join(part for part in ("odradek", query, name) if part is not None)
    return Place(write, 0 if query is None else int(context.getLocalProperty(BATCH_ID)), context.partitionId())


class Rows:
    """Number and checksum of a task's rows, whatever their order: topic, key and value."""

    def __init__(self, topic: str | None) -> None:
        self._topic = topic
        self.records = 0
        self.checksum = 0

    def add(self, table: pa.RecordBatch) -> None:
        """Count these rows too."""
        columns = {name.lower(): table.column(index) for index, name in enumerate(table.schema.names)}
        found = np.full(table.num_rows, zlib.crc32((self._topic or "").encode()), np.uint64)
        for name in ("key", "value", *(("topic",) if self._topic is None else ())):
            hashes = np.full(table.num_rows, -1, np.int64)
            if name in columns:
                slices = Slices.of(columns[name])
                enc.hash_keys(slices.data, slices.edges, hashes)
            found = (found * _MIX) ^ hashes.astype(np.uint64)
            found ^= found >> _SHIFT
        self.records += table.num_rows
        self.checksum = (self.checksum + int((found * _MIX).sum(dtype=np.uint64))) & (2**63 - 1)

    def check(self, marker: Marker, place: Place, *, content: bool) -> None:
        """Raise ReplayError unless these are the rows that the marker tells of."""
        what = f"task {place.task} of batch {place.batch} ({place.write})"
        if self.records != marker.records:
            raise ReplayError(
                f"{what} was committed with {marker.records} records and is repeated with {self.records}: {_CURE}"
            )
        if content and self.checksum != marker.checksum:
            raise ReplayError(
                f"{what} was committed and is repeated with other rows: {_CURE}. If its rows differ from run to run "
                "(uuid(), rand()), odradek.replay.check=count compares only their number"
            )


def last_marker(client: ClusterClient, clock: Clock, options: WriteOptions, group: str) -> Marker | None:
    """The newest marker that is committed under a group, once no transaction is about to change it.

    Raises ApiError, also when that lasts longer than kafka.max.block.ms, and OSError.
    """
    deadline = clock.monotonic_ms() + options.max_block_ms
    pause = threading.Condition()
    while True:
        places: dict[Partition, Committed] = {}
        try:
            places = fetch_offsets(client, group, stable=True)
            wrong = {each.error for each in places.values()} - {ErrorCode.NONE}
        except ApiError as error:
            wrong = {error.code}
        if not wrong:
            break
        code = min(wrong, key=lambda each: each.retriable)
        if not code.retriable or clock.monotonic_ms() >= deadline:
            raise ApiError(code, f"markers of group {group}")
        with pause:
            clock.wait(pause, _BACKOFF_MS)
    found = [
        Marker(each.offset - 1, topic, **json.loads(each.metadata))
        for (topic, _), each in places.items()
        if each.offset >= 0 and each.metadata
    ]
    return max(found, key=lambda marker: marker.batch, default=None)


def begin(
    client: ClusterClient, clock: Clock, options: WriteOptions, place: Place
) -> tuple[Transaction, Marker | None]:
    """Take over a task's transactional id, and what it has committed under it.

    Raises ReplayError when a later batch was committed.
    """
    transaction = Transaction(client, clock, place.transactional_id, options.max_block_ms)
    transaction.begin(options.transaction_timeout_ms)
    marker = last_marker(client, clock, options, place.transactional_id)
    if marker is not None and marker.batch > place.batch:
        raise ReplayError(
            f"group {place.transactional_id} says that batch {marker.batch} is written, and this is batch "
            f"{place.batch}: the checkpoint was set back, or the query runs twice. Delete the group to write again"
        )
    return transaction, marker


def mark(client: ClusterClient, transaction: Transaction, last: Marker | None, written: Marker) -> None:
    """Commit a marker with the transaction, in the place of the last one.

    The first one gets a place before: a coordinator tells of an offset that is about to change only where there is one,
    so another attempt could take a transaction that has just been committed for none.
    """
    if last is None:
        write_down(client, transaction.transactional_id, Marker(-1, written.topic))
    topic = written.topic if last is None else last.topic
    transaction.commit_offset(transaction.transactional_id, (topic, 0), written.batch + 1, written.text())


def commit(client: ClusterClient, clock: Clock, options: WriteOptions, tasks: Sequence[Prepared]) -> None:
    """On the driver: commit the transactions of all tasks. Raises ReplayError and commits none, if the batch was
    partly committed by a run with more tasks."""
    prepared = [task for task in tasks if task.topic is not None]
    if not prepared:
        return
    first = prepared[0]
    known = last_marker(client, clock, options, first.place.write)
    before = 0 if known is None else known.tasks
    try:
        for number in range(len(tasks), before):
            place = Place(first.place.write, first.place.batch, number)
            _, marker = begin(client, clock, options, place)
            if marker is not None and marker.batch == place.batch:
                raise ReplayError(
                    f"batch {place.batch} ({place.write}) is repeated in {len(tasks)} tasks, and task {number} of "
                    f"{before} was committed before: {_CURE}"
                )
        if before != len(tasks):
            assert first.topic is not None
            write_down(client, first.place.write, Marker(first.place.batch, first.topic, tasks=len(tasks)))
    except BaseException:
        abort(client, clock, options, tasks)
        raise
    for task in prepared:
        _resumed(client, clock, options, task).end(committed=True)


def abort(client: ClusterClient, clock: Clock, options: WriteOptions, tasks: Sequence[Prepared]) -> None:
    """On the driver: abort what tasks have prepared, so that readers need not wait for the transactions' timeout."""
    for task in tasks:
        if task.topic is not None:
            with contextlib.suppress(TransactionError, ApiError, OSError):
                _resumed(client, clock, options, task).end(committed=False)


def _resumed(client: ClusterClient, clock: Clock, options: WriteOptions, task: Prepared) -> Transaction:
    transaction = Transaction(client, clock, task.place.transactional_id, options.max_block_ms)
    transaction.resume(task.producer_id, task.producer_epoch)
    return transaction


def write_down(client: ClusterClient, group: str, marker: Marker) -> None:
    """Commit a marker without a transaction. Raises ApiError and OSError."""
    place = (marker.topic, 0)
    code = commit_offsets(client, group, {place: (marker.batch + 1, marker.text())})[place]
    if code is not ErrorCode.NONE:
        raise ApiError(code, f"the number of tasks could not be written down in group {group}")
