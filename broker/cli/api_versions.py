"""``odradek api-versions``: which requests the brokers serve, and in which version this client would send them."""

from __future__ import annotations

import click

from broker.cli.client import bootstrap_option, cluster
from broker.cli.errors import CommandError
from broker.cli.output import rows
from broker.cli.presence import no_brokers
from network.client.connection_pool import Versions
from network.protocol.api import API


@click.command("api-versions")
@bootstrap_option
@click.option("--broker", "broker_id", type=click.IntRange(0), help="Only this broker.")
def command(bootstrap_server: str, broker_id: int | None) -> None:
    """APIs and versions of every broker.

    USABLE is the newest version that broker and client both know, or - where they have none in common. Brokers that
    serve the same are shown in one row.
    """
    with cluster(bootstrap_server) as client:
        brokers = client.brokers()
        wanted = sorted(brokers) if broker_id is None else [broker_id]
        missing = no_brokers(wanted, brokers)
        if missing:
            raise CommandError(missing)
        served = {each: client.versions(each) for each in wanted}
    rows(["KEY", "API", "BROKERS", "MIN", "MAX", "USABLE"], _table(served))


def _table(served: dict[int, Versions]) -> list[list[object]]:
    found: list[list[object]] = []
    for key in sorted({key for versions in served.values() for key in versions}):
        by_range: dict[tuple[int, int], list[int]] = {}
        for broker, versions in served.items():
            if key in versions:
                by_range.setdefault(versions[key], []).append(broker)
        for (first, last), brokers in by_range.items():
            found.append([key, _name(key), ",".join(map(str, brokers)), first, last, _usable(key, first, last)])
    return found


def _name(key: int) -> str:
    return API[key].name if key in API else f"UNKNOWN({key})"


def _usable(key: int, first: int, last: int) -> int | None:
    if key not in API:
        return None
    newest = min(last, API[key].max_version)
    return newest if newest >= max(first, API[key].min_version) else None
