"""``odradek brokers``: list the brokers."""

from __future__ import annotations

import click
from rich.filesize import decimal

from broker.cli.client import bootstrap_option, cluster
from broker.cli.replica_sizes import sizes_on
from broker.cli.table import print_table


@click.group("brokers")
def command() -> None:
    """List brokers, or drain one before it leaves."""


@command.command("list")
@bootstrap_option
def list_(bootstrap_server: str) -> None:
    """The live brokers, what each one leads and holds, and replicas on brokers that are not there."""
    with cluster(bootstrap_server) as client:
        found = client.metadata()
        used = {broker_id: sum(sizes_on(client, broker_id).values()) for broker_id in found.brokers}
    partitions = [p for topic in found.topics.values() for p in topic.partitions.values()]
    named = {broker_id for p in partitions for broker_id in p.replicas}
    rows = []
    for broker_id in sorted(named | found.brokers.keys()):
        address = found.brokers.get(broker_id)
        held = [p for p in partitions if broker_id in p.replicas]
        role = "controller" if broker_id == found.controller_id else ""
        rows.append(
            [
                broker_id,
                "(not running)" if address is None else f"{address.host}:{address.port}",
                (address.rack if address else None) or "-",
                sum(p.leader == broker_id for p in partitions),
                len(held),
                sum(broker_id not in p.isr for p in held),
                "-" if address is None else decimal(used[broker_id]),
                role,
            ]
        )
    print_table(["BROKER", "ADDRESS", "RACK", "LEADS", "REPLICAS", "OUT-OF-SYNC", "BYTES", ""], rows)
