"""``odradek consume TOPIC``: print records of all partitions, without a group."""

from __future__ import annotations

import base64
import sys
import threading
from collections.abc import Iterator

import click

from broker.cli.client import bootstrap_option, cluster, describe
from broker.cli.errors import CommandError
from broker.cli.output import is_for_people, item
from log.errors import LogError
from log.records.record import Record, iter_records
from log.records.visibility import with_visibility
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from network.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from timer.clock import SystemClock

EARLIEST, LATEST = -2, -1
# Fetch by topic name; later versions name topics by id.
MAX_FETCH_VERSION = 12
MAX_WAIT_MS = 500
PARTITION_BYTES = 1024 * 1024


@click.command("consume")
@click.argument("topic")
@bootstrap_option
@click.option("--from-beginning", is_flag=True, help="Start at the earliest record instead of new ones.")
@click.option("--max", "maximum", type=click.IntRange(1), help="End after so many records.")
@click.option("--timeout-ms", type=click.IntRange(1), help="End when no record came for so long.")
@click.option("--partition", type=click.IntRange(0), help="Only this partition.")
@click.option("--offset", type=click.IntRange(0), help="Start of --partition; it has to be one that the partition has.")
@click.option("--print-key", is_flag=True, help="Print KEY, the separator, VALUE.")
@click.option("--key-separator", default="\t", help="Between key and value; a tab by default.")
@click.option("--print-offset", is_flag=True, help="Print PARTITION:OFFSET before each record.")
@click.option("--read-committed", is_flag=True, help="Only records of committed transactions, and others.")
def command(
    topic: str,
    bootstrap_server: str,
    from_beginning: bool,
    maximum: int | None,
    timeout_ms: int | None,
    partition: int | None,
    offset: int | None,
    print_key: bool,
    key_separator: str,
    print_offset: bool,
    read_committed: bool,
) -> None:
    """Print the records of TOPIC, one a line, until Ctrl-C, --max or --timeout-ms."""
    if offset is not None and (partition is None or from_beginning):
        raise CommandError("--offset is an offset of --partition, without --from-beginning", exit_code=2)
    out = sys.stdout.buffer
    printed = 0
    separator = key_separator.encode()
    with cluster(bootstrap_server) as client:
        mark = EARLIEST if from_beginning else LATEST
        reader = Reader(client, topic, partition, mark, read_committed, offset)
        try:
            for found, record in reader.records(timeout_ms):
                if is_for_people():
                    prefix = f"{found}:{record.offset}\t".encode() if print_offset else b""
                    key = _shown(record.key) + separator if print_key else b""
                    out.write(prefix + key + _shown(record.value) + b"\n")
                else:
                    item("", _facts(topic, found, record))
                printed += 1
                if printed == maximum:
                    break
                if reader.at_end_of_batch:
                    out.flush()
        except KeyboardInterrupt:
            pass
        out.flush()
    if maximum is not None and printed < maximum:
        raise CommandError(f"only {printed} of {maximum} records came")


def _shown(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def _facts(topic: str, partition: int, record: Record) -> dict[str, object]:
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [{"key": _text(name), "value": _text(value)} for name, value in record.headers],
    }


def _text(data: bytes | str | None) -> object:
    """Text as it is, other bytes as an object of their base64."""
    if data is None or isinstance(data, str):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


class Reader:
    """Fetches the partitions in turn."""

    def __init__(
        self,
        client: ClusterClient,
        topic: str,
        partition: int | None,
        start: int,
        read_committed: bool,
        offset: int | None = None,
    ) -> None:
        """`start` is EARLIEST or LATEST, where no `offset` is given."""
        self._client = client
        self._topic = topic
        self._isolation = 1 if read_committed else 0
        self._clock = SystemClock()
        self._pause = threading.Condition()
        partitions = sorted(client.topic(topic).partitions)
        if partition is not None and partition not in partitions:
            raise CommandError(f"{topic} has no partition {partition}; it has {len(partitions)}")
        wanted = partitions if partition is None else [partition]
        self._positions = {each: self._offset(each, start) if offset is None else offset for each in wanted}
        self._asked_for = offset
        self.at_end_of_batch = False

    def _offset(self, partition: int, mark: int) -> int:
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self._isolation,
            topics=[
                ListOffsetsTopic(
                    name=self._topic,
                    partitions=[ListOffsetsPartition(partition_index=partition, timestamp=mark)],
                )
            ],
        )
        answer = self._client.call_leader(self._topic, partition, request).topics[0].partitions[0]
        if answer.error_code:
            raise CommandError(f"{self._topic}-{partition}: {describe(answer.error_code, None)}")
        return int(answer.offset)

    def records(self, timeout_ms: int | None) -> Iterator[tuple[int, Record]]:
        """(partition, record) in order of each partition; ends when nothing came for ``timeout_ms``."""
        last = self._clock.monotonic_ms()
        while timeout_ms is None or self._clock.monotonic_ms() - last < timeout_ms:
            # With one partition the broker waits for data; with more nobody should wait for a quiet one.
            wait = MAX_WAIT_MS if len(self._positions) == 1 else 0
            came = False
            for partition in self._positions:
                for record in self._fetch(partition, wait):
                    came = True
                    yield partition, record
            if came:
                last = self._clock.monotonic_ms()
            elif not wait:
                with self._pause:
                    self._clock.wait(self._pause, 50)

    def _fetch(self, partition: int, wait_ms: int) -> Iterator[Record]:
        position = self._positions[partition]
        wanted = FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=PARTITION_BYTES)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            isolation_level=self._isolation,
            topics=[FetchTopic(topic=self._topic, partitions=[wanted])],
        )
        response = self._client.call_leader(self._topic, partition, request, max_version=MAX_FETCH_VERSION)
        if response.error_code:
            raise CommandError(describe(response.error_code, None))
        answer = response.responses[0].partitions[0]
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and position != self._asked_for:
            first = self._positions[partition] = self._offset(partition, EARLIEST)
            # On standard error in every form: records may be missing, or come twice.
            click.echo(f"odradek: {self._topic}-{partition} has no offset {position} any more; on at {first}", err=True)
            return
        if answer.error_code:
            raise CommandError(f"{self._topic}-{partition}: {describe(answer.error_code, None)}")
        aborted = ((a.first_offset, a.producer_id) for a in answer.aborted_transactions or ())
        try:
            for batch, is_visible in with_visibility(answer.records or b"", aborted):
                if is_visible:
                    for record in iter_records(batch):
                        if record.offset >= position:
                            self.at_end_of_batch = record.offset == batch.last_offset
                            yield record
                self._positions[partition] = batch.last_offset + 1
        except LogError as error:
            raise CommandError(f"{self._topic}-{partition}, offset {position}: {error}") from error
