"""``odradek log-dirs``: the log directories of the brokers, and the replicas in them."""

from __future__ import annotations

from collections.abc import Collection

import click
from rich.filesize import decimal

from broker.cli.client import bootstrap_option, cluster, describe
from broker.cli.errors import CommandError
from broker.cli.output import listing
from broker.cli.presence import no_brokers, no_topics
from broker.cli.table import print_table
from network.client.cluster_client import ClusterClient
from network.client.connection import ConnectionFailed
from network.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)

TIMEOUT_MS = 10_000


@click.command("log-dirs")
@bootstrap_option
@click.option("--broker-list", metavar="0,1,2", help="Only these brokers.")
@click.option("--topic-list", metavar="TOPIC,...", help="Only replicas of these topics.")
@click.option("--replicas", is_flag=True, help="A row for each replica.")
def command(bootstrap_server: str, broker_list: str | None, topic_list: str | None, replicas: bool) -> None:
    """Log directories with their size, the room that is left, and an error if one has failed.

    OFFSET-LAG is how far a replica is behind: of one on its way to another directory, behind the one that it replaces.
    """
    with cluster(bootstrap_server) as client:
        wanted = _brokers(client, broker_list)
        topics = None
        problems = []
        if topic_list is not None:
            found = client.metadata([name.strip() for name in topic_list.split(",")]).topics
            topics = {name: list(topic.partitions) for name, topic in found.items() if not topic.error}
            if len(topics) < len(found):
                problems.append(no_topics(found.keys() - topics.keys()))
            if not topics:
                raise CommandError(problems[0])
        facts: list[dict[str, object]] = []
        for broker in wanted:
            try:
                facts += [_facts(broker, result) for result in directories_of(client, broker, topics)]
            except ConnectionFailed as error:
                problems.append(f"broker {broker} does not answer: {error}")
    listing(facts, lambda: _print_replicas(facts) if replicas else _print_directories(facts))
    if any(fact["error"] for fact in facts):
        problems.append("log directories have failed: " + ", ".join(_failed(facts)))
    if problems:
        raise CommandError("; ".join(problems))


def directories_of(
    client: ClusterClient, broker: int, topics: dict[str, list[int]] | None = None
) -> list[DescribeLogDirsResult]:
    """The log directories of one broker, with all replicas or those of these topics. Raises CommandError, and
    ConnectionFailed for a broker that does not answer."""
    asked = None
    if topics is not None:
        asked = [DescribableLogDirTopic(topic=name, partitions=each) for name, each in topics.items()]
    response = client.call_broker(broker, DescribeLogDirsRequest(topics=asked), TIMEOUT_MS)
    if response.error_code:
        raise CommandError(f"log directories of broker {broker}: {describe(response.error_code, None)}")
    return sorted(response.results, key=lambda result: result.log_dir)


def _brokers(client: ClusterClient, text: str | None) -> list[int]:
    known = sorted(client.brokers())
    if text is None:
        return known
    if not all(part.strip().isdecimal() for part in text.split(",")):
        raise CommandError(f"--broker-list {text!r} is not like 0,1,2", exit_code=2)
    wanted = sorted({int(part) for part in text.split(",")})
    missing = no_brokers(wanted, known)
    if missing:
        raise CommandError(missing)
    return wanted


def _facts(broker: int, result: DescribeLogDirsResult) -> dict[str, object]:
    partitions = [
        {
            "partition": f"{topic.name}-{each.partition_index}",
            "size": each.partition_size,
            "offset_lag": each.offset_lag,
            "is_future": each.is_future_key,
        }
        for topic in sorted(result.topics, key=lambda topic: topic.name)
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]
    return {
        "broker": broker,
        "log_dir": result.log_dir,
        "error": describe(result.error_code, None) if result.error_code else None,
        "total_bytes": None if result.total_bytes < 0 else result.total_bytes,
        "usable_bytes": None if result.usable_bytes < 0 else result.usable_bytes,
        "partitions": partitions,
    }


def _failed(facts: Collection[dict[str, object]]) -> list[str]:
    return [f"{fact['log_dir']} of broker {fact['broker']}" for fact in facts if fact["error"]]


def _print_directories(facts: list[dict[str, object]]) -> None:
    rows: list[list[object]] = []
    for fact in facts:
        partitions = fact["partitions"]
        assert isinstance(partitions, list)
        size = sum(each["size"] for each in partitions)
        usable, total = fact["usable_bytes"], fact["total_bytes"]
        rows.append(
            [
                fact["broker"],
                fact["log_dir"],
                len(partitions),
                decimal(size),
                decimal(usable) if isinstance(usable, int) else "-",
                decimal(total) if isinstance(total, int) else "-",
                fact["error"] or "-",
            ]
        )
    print_table(["BROKER", "LOG-DIR", "REPLICAS", "BYTES", "USABLE", "DISK", "ERROR"], rows)


def _print_replicas(facts: list[dict[str, object]]) -> None:
    rows: list[list[object]] = []
    for fact in facts:
        partitions = fact["partitions"]
        assert isinstance(partitions, list)
        for each in partitions:
            future = "yes" if each["is_future"] else "-"
            rows.append([fact["broker"], fact["log_dir"], each["partition"], each["size"], each["offset_lag"], future])
    print_table(["BROKER", "LOG-DIR", "PARTITION", "SIZE", "OFFSET-LAG", "FUTURE"], rows)
