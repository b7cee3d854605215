"""A balanced, rack-aware plan for a running cluster, in the JSON that ``odradek reassign execute`` takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from network.client.cluster_balance import Broker, Placement, Plan, PlanError, make_plan
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from spark_jobs.connection import open_cluster
from spark_jobs.jobs.html import bars, heading, page, paragraph, table
from spark_jobs.jobs.session import Launch, cluster_options, say, spark_options

Sizes = dict[tuple[str, int], int]


def replica_sizes(client: ClusterClient) -> dict[int, Sizes]:
    """Bytes on disk by broker and partition; replicas that are being moved in do not count."""
    found: dict[int, Sizes] = {}
    for broker in client.brokers():
        sizes = found.setdefault(broker, {})
        for result in client.call_broker(broker, DescribeLogDirsRequest(topics=None)).results:
            if result.error_code:
                raise ApiError(ErrorCode.of(result.error_code), f"directory {result.log_dir} of broker {broker}")
            for topic in result.topics:
                for each in topic.partitions:
                    if not each.is_future_key:
                        sizes[topic.name, each.partition_index] = each.partition_size
    return found


def read_cluster(
    client: ClusterClient, traffic: Mapping[str, float], topics: set[str] | None
) -> tuple[list[Broker], list[Placement]]:
    """Brokers and placements of a running cluster; ``traffic`` is bytes/s by ``topic-partition``."""
    metadata = client.metadata()
    by_partition: Sizes = {}
    for sizes in replica_sizes(client).values():
        for partition, size in sizes.items():
            by_partition[partition] = max(size, by_partition.get(partition, 0))
    brokers = [Broker(each.id, each.rack) for each in metadata.brokers.values()]
    placements = [
        Placement(
            name,
            number,
            list(partition.replicas),
            by_partition.get((name, number), 0),
            traffic.get(f"{name}-{number}", 0.0),
        )
        for name, topic in sorted(metadata.topics.items())
        if topics is None or name in topics
        for number, partition in topic.partitions.items()
    ]
    return brokers, placements


def report(plan: Plan) -> str:
    """Before and after as an HTML page."""
    brokers = sorted(plan.before.keys() | plan.after.keys())
    labels = [f"broker {broker}" for broker in brokers]

    def values(of: Mapping[int, float]) -> list[float]:
        return [of.get(broker, 0) for broker in brokers]

    mean = sum(plan.before.values()) / max(1, len(plan.after)) or 1
    moves: list[dict[str, object]] = [
        {"partition": f"{p.topic}-{p.partition}", "bytes": p.size, "replicas": ", ".join(map(str, p.replicas))}
        for p in plan.changed
    ]
    names = ("before", "after")
    load = bars(
        labels,
        [100 * value / mean for value in values(plan.before)],
        [100 * value / mean for value in values(plan.after)],
        names=names,
        unit=" %",
    )
    return page(
        "Reassignment plan",
        [
            paragraph(f"{len(plan.changed)} partitions change, {plan.bytes_moved:,} bytes travel."),
            heading("Load of each broker, in percent of the mean"),
            load,
            heading("Preferred leaders"),
            bars(labels, values(plan.leaders_before), values(plan.leaders_after), names=names),
            heading("Partitions that change"),
            table(moves),
        ],
    )


@click.command("reassignment-plan")
@cluster_options
@click.option("--brokers", help="Ids that may hold replicas, separated by commas; all without it. Others are emptied.")
@click.option("--topics", help="Only these topics, separated by commas.")
@click.option("--traffic", type=click.Path(exists=True, dir_okay=False), help='JSON: {"topic-partition": bytes per s}.')
@click.option("--tolerance", default=0.05, show_default=True, help="How far above the mean a broker may stay.")
@click.option("--output", type=click.Path(dir_okay=False), help="Write the plan here instead of standard output.")
@click.option("--html", "html_path", type=click.Path(dir_okay=False), help="Also write a page with before and after.")
@spark_options
def main(
    kafka: dict[str, str],
    brokers: str | None,
    topics: str | None,
    traffic: str | None,
    tolerance: float,
    output: str | None,
    html_path: str | None,
    launch: Launch,
) -> None:
    """Plan moves that even out the brokers. No Spark is started, so --master and --conf change nothing; of the options
    of the format only those of login and TLS do. The plan is JSON with --json and without."""
    loads: dict[str, float] = json.loads(Path(traffic).read_text()) if traffic else {}
    chosen = None if topics is None else {name.strip() for name in topics.split(",")}
    with open_cluster(kafka) as client:
        known, placements = read_cluster(client, loads, chosen)
    if brokers is not None:
        wanted = {int(each) for each in brokers.split(",")}
        missing = wanted - {broker.id for broker in known}
        if missing:
            raise click.UsageError(f"--brokers names {sorted(missing)}, which are not running")
        known = [broker for broker in known if broker.id in wanted]
    try:
        plan = make_plan(known, placements, tolerance=tolerance)
    except PlanError as error:
        raise click.ClickException(str(error)) from None
    say(f"{len(plan.changed)} partitions change, {plan.bytes_moved:,} bytes travel")
    text = json.dumps(plan.to_json(), indent=2)
    if output is None:
        click.echo(text)
    else:
        Path(output).write_text(text + "\n")
    if html_path is not None:
        Path(html_path).write_text(report(plan))


if __name__ == "__main__":
    main()
