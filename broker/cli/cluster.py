"""``odradek cluster``: what the cluster is, and how it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.filesize import decimal

from broker.cli.client import bootstrap_option, cluster
from broker.cli.errors import CommandError
from broker.cli.health import Finding, Limits, Picture, Severity, findings, look
from broker.cli.output import document
from broker.cli.table import print_table
from broker.dev.polling import wait_until
from network.client.cluster_client import ClusterClient
from network.client.cluster_metadata import ClusterMetadata
from network.protocol.messages.api_versions import ApiVersionsRequest
from timer.clock import SystemClock

UNKNOWN = 3
_LOOK_MS = 500


class _ForMonitors(click.Command):
    """Whatever keeps it from looking ends with `UNKNOWN`: 2, of a wrong command line, would be critical."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with _unknown():
            return super().make_context(*arguments, **options)

    def invoke(self, context: click.Context) -> Any:
        with _unknown():
            return super().invoke(context)


@contextmanager
def _unknown() -> Iterator[None]:
    try:
        yield
    except CommandError as error:
        raise CommandError(str(error), exit_code=UNKNOWN) from None
    except click.ClickException as error:
        setattr(error, "exit_code", UNKNOWN)  # noqa: B010  # declared for the class alone
        raise


@click.group("cluster")
def command() -> None:
    """Describe the cluster, and say how it is."""


@command.command("cluster-id")
@bootstrap_option
def cluster_id(bootstrap_server: str) -> None:
    """The id of the cluster."""
    with cluster(bootstrap_server) as client:
        found = client.metadata([]).cluster_id
    document({"cluster_id": found}, lambda: click.echo(f"Cluster ID: {found}"))


@command.command("describe")
@bootstrap_option
def describe(bootstrap_server: str) -> None:
    """Id, controller, brokers, features, and how much there is of everything."""
    with cluster(bootstrap_server) as client:
        metadata = client.metadata()
        features = _features(client)
    facts = _facts(metadata, features)
    document(facts, lambda: _print_description(facts))


def _features(client: ClusterClient) -> dict[str, str]:
    response = client.call_any(ApiVersionsRequest(client_software_name="odradek", client_software_version="1"))
    return {each.name: f"{each.min_version_level}-{each.max_version_level}" for each in response.finalized_features}


def _facts(metadata: ClusterMetadata, features: dict[str, str]) -> dict[str, object]:
    partitions = [each for topic in metadata.topics.values() for each in topic.partitions.values()]
    return {
        "cluster_id": metadata.cluster_id,
        "controller": metadata.controller_id if metadata.controller_id >= 0 else None,
        "brokers": [
            {
                "broker": each.id,
                "host": each.host,
                "port": each.port,
                "rack": each.rack,
                "leads": sum(partition.leader == each.id for partition in partitions),
                "replicas": sum(each.id in partition.replicas for partition in partitions),
            }
            for each in sorted(metadata.brokers.values(), key=lambda broker: broker.id)
        ],
        "topics": sum(not topic.internal for topic in metadata.topics.values()),
        "internal_topics": sum(topic.internal for topic in metadata.topics.values()),
        "partitions": len(partitions),
        "replicas": sum(len(partition.replicas) for partition in partitions),
        "features": features,
    }


def _print_description(facts: dict[str, object]) -> None:
    click.echo(f"Cluster:     {facts['cluster_id']}")
    click.echo(f"Controller:  {'none' if facts['controller'] is None else facts['controller']}")
    click.echo(f"Topics:      {facts['topics']}, and {facts['internal_topics']} internal")
    click.echo(f"Partitions:  {facts['partitions']}, with {facts['replicas']} replicas")
    features, brokers = facts["features"], facts["brokers"]
    assert isinstance(features, dict)
    assert isinstance(brokers, list)
    click.echo(f"Features:    {', '.join(f'{name} {levels}' for name, levels in features.items()) or 'none'}\n")
    print_table(
        ["BROKER", "ADDRESS", "RACK", "LEADS", "REPLICAS"],
        [
            [each["broker"], f"{each['host']}:{each['port']}", each["rack"] or "-", each["leads"], each["replicas"]]
            for each in brokers
        ],
    )


@command.command("health", cls=_ForMonitors)
@bootstrap_option
@click.option(
    "--disk-warning",
    default=85,
    show_default=True,
    type=click.IntRange(1, 101),
    metavar="PERCENT",
    envvar="ODRADEK_DISK_WARNING",
)
@click.option(
    "--disk-critical",
    default=95,
    show_default=True,
    type=click.IntRange(1, 101),
    metavar="PERCENT",
    envvar="ODRADEK_DISK_CRITICAL",
)
@click.option(
    "--skew-warning",
    default=10,
    show_default=True,
    type=click.IntRange(0, 100),
    metavar="PERCENT",
    help="Partitions that their preferred replica could lead and does not.",
)
@click.option(
    "--brokers",
    default=0,
    type=click.IntRange(0),
    metavar="COUNT",
    help="So many have to run; without it a broker that holds no replica may be away unnoticed.",
)
@click.option("--wait-ms", default=0, type=click.IntRange(0), metavar="MS", help="Look for so long until all is well.")
def health(
    bootstrap_server: str, disk_warning: int, disk_critical: int, skew_warning: int, brokers: int, wait_ms: int
) -> None:
    """One screen on how the cluster is.

    \b
    The exit code is for monitors:
      0  all is well
      1  warning: brokers away or not knowing all others, partitions under-replicated, a disk filling up, leaders
         not where they belong
      2  critical: no controller, partitions without leader or under min.insync.replicas, fewer brokers than
         --brokers, a broker that does not answer, a log directory that has failed, a full disk
      3  unknown: nobody answered, this user may not ask, or the command line is wrong
    """
    limits = Limits(disk_warning, disk_critical, skew_warning, brokers)
    picture = _settled(bootstrap_server, limits, wait_ms)
    found = findings(picture, limits)
    worst = max((each.severity for each in found), default=Severity.OK)
    document(_health_facts(picture, found, worst), lambda: _print_health(picture, found, worst))
    sys.exit(worst)


def _settled(bootstrap_server: str, limits: Limits, wait_ms: int) -> Picture:
    """The picture when nothing is wrong any more, or the last one in time. Raises CommandError when
    nobody answered then."""
    last: Picture | CommandError = CommandError("nobody was asked")

    def is_well() -> bool:
        nonlocal last
        try:
            with cluster(bootstrap_server) as client:
                last = look(client)
        except CommandError as error:
            last = error
            return False
        return not findings(last, limits)

    wait_until(is_well, SystemClock(), wait_ms, _LOOK_MS)
    if isinstance(last, CommandError):
        raise last
    return last


def _health_facts(picture: Picture, found: list[Finding], worst: Severity) -> dict[str, object]:
    lag = picture.largest_lag
    return {
        "status": worst.name,
        "findings": [{"severity": each.severity.name, "text": each.text} for each in found],
        "cluster_id": picture.metadata.cluster_id,
        "controller": picture.metadata.controller_id if picture.metadata.controller_id >= 0 else None,
        "brokers": sorted(picture.metadata.brokers),
        "missing_brokers": picture.missing,
        "silent_brokers": picture.silent,
        "behind_brokers": picture.behind,
        "partitions": len(picture.partitions),
        "offline": list(map(str, picture.offline)),
        "under_replicated": list(map(str, picture.under_replicated)),
        "under_min_isr": list(map(str, picture.under_min_isr)),
        "not_preferred": list(map(str, picture.not_preferred)),
        "reassigning": list(map(str, picture.reassigning)),
        "leaders": {str(broker): count for broker, count in picture.leaders.items()},
        "largest_lag": None
        if lag is None
        else {"partition": str(lag.partition), "broker": lag.broker, "records": lag.records},
        "disks": [
            {
                "broker": each.broker,
                "log_dir": each.directory,
                "used_percent": each.used,
                "usable_bytes": each.usable_bytes,
                "failed": each.error,
            }
            for each in picture.disks
        ],
    }


def _print_health(picture: Picture, found: list[Finding], worst: Severity) -> None:
    metadata = picture.metadata
    leaders, lag = picture.leaders, picture.largest_lag
    disks = [each for each in picture.disks if each.used is not None]
    fullest = max(disks, key=lambda disk: disk.used or 0, default=None)
    lines = [
        ("Status", worst.name),
        ("Controller", str(metadata.controller_id) if metadata.controller_id in metadata.brokers else "none"),
        ("Brokers", f"{len(metadata.brokers)} running{_named('not running', picture.missing)}"),
        ("Partitions", str(len(picture.partitions))),
        ("Offline", str(len(picture.offline))),
        ("Under-replicated", str(len(picture.under_replicated))),
        ("Under min ISR", str(len(picture.under_min_isr))),
        ("Reassigning", str(len(picture.reassigning))),
        ("Leaders", f"{min(leaders.values(), default=0)} to {max(leaders.values(), default=0)} a broker, "
                    f"{len(picture.not_preferred)} not preferred"),
        ("Largest lag", "-" if lag is None else f"{lag.records} records ({lag.partition} on broker {lag.broker})"),
        ("Fullest disk", "-" if fullest is None or fullest.usable_bytes is None else
            f"{fullest.used} %, {decimal(fullest.usable_bytes)} left ({fullest.directory} of broker {fullest.broker})"),
    ]  # fmt: skip
    for name, value in lines:
        click.echo(f"{name + ':':18}{value}")
    if found:
        click.echo()
    for each in found:
        click.echo(f"{each.severity.name}: {each.text}")


def _named(what: str, brokers: list[int]) -> str:
    return f", {what}: {', '.join(map(str, brokers))}" if brokers else ""
