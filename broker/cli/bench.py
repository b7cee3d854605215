"""``odradek bench``: how much a cluster takes and gives, as Kafka's perf tools measure it, from one Python process.

The figures are of this client too, which is one thread; with several processes beside each other a cluster shows more.
"""

from __future__ import annotations

import click

from broker.cli.bench_consume import ConsumeLoad
from broker.cli.bench_produce import ProduceLoad
from broker.cli.client import bootstrap_option, cluster
from broker.cli.config_texts import add_config
from broker.cli.errors import CommandError
from broker.cli.output import document, line
from broker.cli.produce import CODECS
from network.client.connection_pool import CONNECTIONS_PER_BROKER
from timer.clock import SystemClock

_PRODUCER = {
    "acks": "all",
    "batch.size": "16384",
    "compression.type": "none",
    "linger.ms": "0",
    "max.in.flight.requests.per.connection": "5",
}
_MOST_IN_FLIGHT = 100
_LONGEST_LINGER_MS = 60_000
_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}

topic_option = click.option("--topic", required=True, help="A topic that is there.")
seconds_option = click.option(
    "--max-seconds", default=600, show_default=True, type=click.IntRange(1), help="End then in any case."
)
interval_option = click.option(
    "--reporting-interval", default=5_000, show_default=True, type=click.IntRange(1), metavar="MS"
)


@click.group("bench")
def command() -> None:
    """Measure what the cluster takes and gives."""


@command.command("produce")
@topic_option
@bootstrap_option
@click.option("--num-records", default=100_000, show_default=True, type=click.IntRange(1, 10**9))
@click.option("--record-size", default=1_000, show_default=True, type=click.IntRange(1, 1_000_000), metavar="BYTES")
@click.option("--throughput", default=-1, show_default=True, metavar="RECORDS/S", help="Rate to keep; -1: no limit.")
@click.option(
    "--producer-props",
    multiple=True,
    metavar="K=V",
    help=f"Repeatable; of {', '.join(f'{key} ({value})' for key, value in _PRODUCER.items())}.",
)
@click.option("--acks", type=click.Choice(list(_ACKS)), help="As acks=... of --producer-props; so the next three.")
@click.option("--compression", type=click.Choice(CODECS), help="compression.type")
@click.option(
    "--linger", type=click.IntRange(0, _LONGEST_LINGER_MS), metavar="MS", help="linger.ms; for a --throughput."
)
@click.option(
    "--in-flight",
    type=click.IntRange(1, _MOST_IN_FLIGHT),
    help="Unanswered requests, of all brokers together: max.in.flight.requests.per.connection.",
)
@interval_option
@seconds_option
def produce(
    topic: str,
    bootstrap_server: str,
    num_records: int,
    record_size: int,
    throughput: int,
    producer_props: tuple[str, ...],
    acks: str | None,
    compression: str | None,
    linger: int | None,
    in_flight: int | None,
    reporting_interval: int,
    max_seconds: int,
) -> None:
    """Send records of random letters, round the partitions.

    The latency of a record is from when it was due to when it was acknowledged, so a rate that is not kept shows.
    """
    if throughput == 0 or throughput < -1:
        raise CommandError("--throughput is a number of records a second, or -1", exit_code=2)
    settings = _producer_settings(producer_props)
    given = dict(zip(settings, (acks, None, compression, linger, in_flight), strict=True))
    settings |= {key: str(value) for key, value in given.items() if value is not None}
    with cluster(bootstrap_server) as client:
        load = ProduceLoad(
            client,
            SystemClock(),
            topic,
            record_size=record_size,
            batch_bytes=int(settings["batch.size"]),
            codec=settings["compression.type"],
            acks=_ACKS[settings["acks"]],
            in_flight=int(settings["max.in.flight.requests.per.connection"]),
            linger_ms=int(settings["linger.ms"]),
        )
        load.run(num_records, throughput, reporting_interval, max_seconds * 1000, line)
    document(load.facts(), lambda: click.echo(load.text()))


def _producer_settings(props: tuple[str, ...]) -> dict[str, str]:
    settings = dict(_PRODUCER)
    for text in props:
        settings.update(add_config(text))
    unknown = settings.keys() - _PRODUCER.keys()
    if unknown:
        raise CommandError(f"--producer-props {min(unknown)} is not known; {', '.join(_PRODUCER)} are", exit_code=2)
    if settings["acks"] not in _ACKS:
        raise CommandError(f"acks={settings['acks']} is none of {', '.join(_ACKS)}", exit_code=2)
    codec = settings["compression.type"]
    if codec not in CODECS:
        raise CommandError(f"compression.type={codec} is none of {', '.join(CODECS)}", exit_code=2)
    if not settings["batch.size"].isdecimal():
        raise CommandError(f"batch.size={settings['batch.size']} is no number of bytes", exit_code=2)
    if not settings["linger.ms"].isdecimal() or int(settings["linger.ms"]) > _LONGEST_LINGER_MS:
        raise CommandError(
            f"linger.ms={settings['linger.ms']} is no number of milliseconds up to {_LONGEST_LINGER_MS}", exit_code=2
        )
    in_flight = settings["max.in.flight.requests.per.connection"]
    if not in_flight.isdecimal() or not 1 <= int(in_flight) <= _MOST_IN_FLIGHT:
        raise CommandError(
            f"max.in.flight.requests.per.connection={in_flight} is no number from 1 to {_MOST_IN_FLIGHT}", exit_code=2
        )
    return settings


@command.command("consume")
@topic_option
@bootstrap_option
@click.option("--messages", default=100_000, show_default=True, type=click.IntRange(1, 10**9))
@click.option("--timeout", default=10_000, show_default=True, type=click.IntRange(1), metavar="MS",
              help="End when nothing came for so long.")  # fmt: skip
@click.option("--fetch-size", default=1_048_576, show_default=True, type=click.IntRange(1), metavar="BYTES")
@click.option("--from-latest", is_flag=True, help="Only records that come from now on.")
@click.option(
    "--in-flight",
    default=2,
    show_default=True,
    type=click.IntRange(1, CONNECTIONS_PER_BROKER),
    help="Fetches at a time of each broker, which share its partitions.",
)
@interval_option
@seconds_option
def consume(
    topic: str,
    bootstrap_server: str,
    messages: int,
    timeout: int,
    fetch_size: int,
    from_latest: bool,
    in_flight: int,
    reporting_interval: int,
    max_seconds: int,
) -> None:
    """Fetch records of all partitions, without a group. Batches are counted, their records not decoded.

    The exit code is 1 when fewer than --messages came. The latencies are of the fetch requests.
    """
    with cluster(bootstrap_server) as client:
        load = ConsumeLoad(
            client, SystemClock(), topic, fetch_bytes=fetch_size, from_latest=from_latest, in_flight=in_flight
        )
        load.run(messages, timeout, reporting_interval, max_seconds * 1000, line)
    document(load.facts(), lambda: click.echo(load.text()))
    if load.records < messages:
        raise CommandError(f"only {load.records} of {messages} records came")
