"""``odradek delete-records``: records before an offset go, for good."""

from __future__ import annotations

import re

import click

from broker.cli.client import bootstrap_option, cluster, describe
from broker.cli.errors import CommandError
from broker.cli.group_offsets import EARLIEST, LATEST, list_offsets
from broker.cli.output import note, rows
from broker.cli.reassignment_files import by_topic, read_offsets
from broker.cli.reassignments import current_replicas
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

TIMEOUT_MS = 30_000
TO_THE_END = -1


@click.command("delete-records")
@click.argument("offsets", nargs=-1, metavar="[TOPIC:PARTITION:OFFSET]...")
@bootstrap_option
@click.option(
    "--offset-json-file",
    metavar="FILE",
    help='{"partitions": [{"topic": "t", "partition": 0, "offset": 10}]}, as Kafka\'s tool reads it.',
)
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
def command(offsets: tuple[str, ...], bootstrap_server: str, offset_json_file: str | None, dry_run: bool) -> None:
    """Delete the records before an offset of each partition; -1: all records that there are."""
    if bool(offsets) == (offset_json_file is not None):
        raise CommandError("give TOPIC:PARTITION:OFFSET or --offset-json-file", exit_code=2)
    wanted = read_offsets(offset_json_file) if offset_json_file is not None else _parsed(offsets)
    with cluster(bootstrap_server) as client:
        current_replicas(client, wanted)  # names those that do not exist, before anything goes
        if dry_run:
            _show(client, wanted)
            return
        results = [_delete(client, tp, offset) for tp, offset in sorted(wanted.items())]
    done = [[*tp, mark] for tp, mark, error in results if not error]
    if done:
        rows(["TOPIC", "PARTITION", "LOW-WATERMARK"], done)
    failed = [f"{tp}: {error}" for tp, _, error in results if error]
    if failed:
        raise CommandError("; ".join(failed))


def _parsed(items: tuple[str, ...]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for text in items:
        match = re.fullmatch(r"([^:]+):(\d+):(\d+|-1)", text)
        if match is None:
            raise CommandError(f"{text!r} is not TOPIC:PARTITION:OFFSET", exit_code=2)
        tp = TopicPartition(match[1], int(match[2]))
        if tp in found:
            raise CommandError(f"{tp} is named twice", exit_code=2)
        found[tp] = int(match[3])
    return found


def _show(client: ClusterClient, wanted: dict[TopicPartition, int]) -> None:
    first, end = (list_offsets(client, wanted, mark) for mark in (EARLIEST, LATEST))
    found: list[list[object]] = []
    for tp, offset in sorted(wanted.items()):
        if tp not in first or tp not in end:
            raise CommandError(f"no leader to ask about {tp}")
        until = end[tp] if offset == TO_THE_END else offset
        if until > end[tp]:
            raise CommandError(f"{tp} ends at offset {end[tp]}, so there is nothing to delete before {until}")
        found.append([*tp, first[tp], max(until, first[tp])])
    rows(["TOPIC", "PARTITION", "FIRST-OFFSET", "NEW-FIRST-OFFSET"], found)
    note("Nothing was deleted.")


def _delete(client: ClusterClient, tp: TopicPartition, offset: int) -> tuple[TopicPartition, int, str | None]:
    """The partition, its first offset afterwards, and what went wrong."""
    partition = DeleteRecordsPartition(partition_index=tp.partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=[partition]) for name in by_topic([tp])], timeout_ms=TIMEOUT_MS
    )
    (topic,) = client.call_leader(tp.topic, tp.partition, request, TIMEOUT_MS + 5_000).topics
    (result,) = topic.partitions
    error = describe(result.error_code, None) if result.error_code else None
    return tp, result.low_watermark, error
