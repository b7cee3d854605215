"""``odradek elect-leaders``: preferred replicas lead again, or replicas outside the ISR where nothing else is left."""

from __future__ import annotations

import click

from broker.cli.client import bootstrap_option, cluster, describe
from broker.cli.errors import CommandError
from broker.cli.output import say
from broker.cli.reassignment_files import by_topic, names, read_partitions
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

_TYPES = {"preferred": 0, "unclean": 1}


@click.command("elect-leaders")
@bootstrap_option
@click.option("--type", "kind", type=click.Choice(list(_TYPES)), default="preferred", show_default=True)
@click.option("--topic", help="With --partition: this one. Alone: all its partitions.")
@click.option("--partition", type=click.IntRange(0), help="One partition of --topic.")
@click.option("--path-to-json", metavar="FILE", help='{"partitions": [{"topic": "t", "partition": 0}]}')
@click.option("--all", "all_partitions", is_flag=True, help="All partitions of the cluster.")
@click.option("--timeout-ms", default=30_000, show_default=True, type=click.IntRange(1))
def command(
    bootstrap_server: str,
    kind: str,
    topic: str | None,
    partition: int | None,
    path_to_json: str | None,
    all_partitions: bool,
    timeout_ms: int,
) -> None:
    """Elect leaders.

    preferred: the first replica of a partition leads again, if it is in sync. unclean: a partition without leader gets
    a live replica that is not in sync; what the lost ones alone had acknowledged is lost.
    """
    if sum([topic is not None, path_to_json is not None, all_partitions]) != 1:
        raise CommandError("give one of --topic, --path-to-json and --all", exit_code=2)
    if partition is not None and topic is None:
        raise CommandError("--partition needs --topic", exit_code=2)
    wanted: list[TopicPartition] | None = None if path_to_json is None else read_partitions(path_to_json)
    with cluster(bootstrap_server) as client:
        if topic is not None:
            numbers = client.topic(topic).partitions if partition is None else [partition]
            wanted = [TopicPartition(topic, number) for number in numbers]
        response = client.call_controller(_request(kind, wanted, timeout_ms), timeout_ms + 10_000)
    if response.error_code:
        raise CommandError(describe(response.error_code, None))
    elected, unneeded, failed = [], [], []
    for result in response.replica_election_results:
        for each in result.partition_result:
            tp = TopicPartition(result.topic, each.partition_id)
            if each.error_code == ErrorCode.ELECTION_NOT_NEEDED:
                unneeded.append(tp)
            elif each.error_code:
                failed.append(f"{tp}: {describe(each.error_code, each.error_message)}")
            else:
                elected.append(tp)
    if elected:
        say(f"Elected {kind} leaders of {names(elected)}.", type=kind, elected=list(map(str, elected)))
    if unneeded:
        say(f"No election was needed for {names(unneeded)}.", type=kind, unneeded=list(map(str, unneeded)))
    if not elected and not unneeded and not failed:
        say("No election was needed.", type=kind, elected=[])
    if failed:
        raise CommandError("; ".join(sorted(failed)))


def _request(kind: str, wanted: list[TopicPartition] | None, timeout_ms: int) -> ElectLeadersRequest:
    topics = None
    if wanted is not None:
        topics = [TopicPartitions(topic=name, partitions=numbers) for name, numbers in by_topic(wanted).items()]
    return ElectLeadersRequest(election_type=_TYPES[kind], topic_partitions=topics, timeout_ms=timeout_ms)
