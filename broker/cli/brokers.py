"""``odradek brokers``: list the brokers, and drain one before it leaves the cluster."""

from __future__ import annotations

import click
from rich.filesize import decimal

from broker.cli import reassignment_throttles as throttles
from broker.cli.client import bootstrap_option, cluster
from broker.cli.errors import CommandError
from broker.cli.output import is_for_people, rows, say
from broker.cli.reassign import start, throttle_option, watch
from broker.cli.reassignment_files import names, to_json
from broker.cli.reassignments import Ongoing, Replicas, ongoing, replicas_of, settled_replicas
from broker.cli.replica_sizes import Sizes, all_sizes, largest_sizes
from log.topic_partition import TopicPartition
from network.client.cluster_balance import Broker, Placement, Plan, PlanError, drain_plan
from network.client.cluster_client import ClusterClient
from network.client.cluster_metadata import ClusterMetadata
from timer.clock import SystemClock

# Topics may be created on a broker while it is drained, so it is looked at again; not without end.
_ROUNDS = 10


@click.group("brokers")
def command() -> None:
    """List brokers, or drain one before it leaves."""


@command.command("list")
@bootstrap_option
def list_(bootstrap_server: str) -> None:
    """The live brokers, what each one leads and holds, and replicas on brokers that are not there."""
    with cluster(bootstrap_server) as client:
        found = client.metadata()
        sizes = all_sizes(client)
    partitions = [p for topic in found.topics.values() for p in topic.partitions.values()]
    named = {broker_id for p in partitions for broker_id in p.replicas}
    found_rows = []
    for broker_id in sorted(named | found.brokers.keys()):
        address = found.brokers.get(broker_id)
        held = [p for p in partitions if broker_id in p.replicas]
        role = "controller" if broker_id == found.controller_id else ""
        found_rows.append(
            [
                broker_id,
                "(not running)" if address is None else f"{address.host}:{address.port}",
                address.rack if address else None,
                sum(p.leader == broker_id for p in partitions),
                len(held),
                sum(broker_id not in p.isr for p in held),
                _total(sizes.get(broker_id)),
                role,
            ]
        )
    rows(["BROKER", "ADDRESS", "RACK", "LEADS", "REPLICAS", "OUT-OF-SYNC", "BYTES", "ROLE"], found_rows)


def _total(sizes: Sizes | None) -> str | int | None:
    if sizes is None:
        return None
    return decimal(sum(sizes.values())) if is_for_people() else sum(sizes.values())


@command.command("decommission")
@click.argument("broker_id", type=click.IntRange(0))
@bootstrap_option
@throttle_option
@click.option("--at-once", default=50, show_default=True, type=click.IntRange(1), help="Partitions that move together.")
@click.option("--dry-run", is_flag=True, help="Only print the plan, as reassign execute takes it.")
def decommission(broker_id: int, bootstrap_server: str, throttle: int | None, at_once: int, dry_run: bool) -> None:
    """Move every replica off BROKER_ID, and say when it is safe to stop.

    Its replicas go to the brokers with the fewest bytes, racks kept apart; nothing else moves. Interrupted, the
    copying that has started goes on; the same command goes on with the rest. A broker that is down can be drained too.
    """
    moved: set[str] = set()
    with cluster(bootstrap_server) as client:
        for _ in range(_ROUNDS):
            metadata, running = client.metadata(), ongoing(client)
            after = replicas_of(metadata) | {tp: each.target for tp, each in running.items()}
            leaving = [tp for tp, each in running.items() if broker_id in each.removing]
            if not leaving and not any(broker_id in replicas for replicas in after.values()):
                if broker_id not in metadata.brokers and not moved:
                    raise CommandError(f"there is no broker {broker_id}, and no partition has a replica there")
                break
            plan = _drain(client, metadata, after, broker_id)
            if dry_run:
                click.echo(to_json({TopicPartition(p.topic, p.partition): p.replicas for p in plan.changed}))
                return
            if leaving:
                watch(client, {tp: running[tp].adding for tp in leaving}, "started before")
            for first in range(0, len(plan.changed), at_once):
                batch = plan.changed[first : first + at_once]
                _move(client, {TopicPartition(p.topic, p.partition): p.replicas for p in batch}, throttle, broker_id)
            moved.update(p.topic for p in plan.changed)
        else:
            raise CommandError(f"broker {broker_id} keeps getting new replicas; see which topics are being created")
        if throttle is not None and not ongoing(client):
            throttles.clear_brokers(client)
            throttles.clear_topics(client, moved)
        if broker_id not in metadata.brokers:
            say(
                f"Broker {broker_id} does not run, and no partition has a replica there.",
                broker=broker_id,
                running=False,
                moved_topics=sorted(moved),
            )
            return
    say(
        f"Broker {broker_id} holds no replica any more. It is safe to stop; new topics may use it until then.",
        broker=broker_id,
        running=True,
        moved_topics=sorted(moved),
    )


def _drain(client: ClusterClient, metadata: ClusterMetadata, after: Replicas, broker_id: int) -> Plan:
    leaderless = [
        TopicPartition(name, number)
        for name, topic in metadata.topics.items()
        for number, partition in topic.partitions.items()
        if partition.leader < 0 and broker_id in after[TopicPartition(name, number)]
    ]
    if leaderless:
        raise CommandError(f"nothing can be copied of partitions without leader: {names(leaderless)}")
    if not metadata.brokers.keys() - {broker_id}:
        raise CommandError(f"broker {broker_id} cannot leave: no other broker runs that could take its replicas")
    sizes = largest_sizes(client)
    brokers = [Broker(each.id, each.rack) for each in metadata.brokers.values()]
    placements = [Placement(*tp, list(replicas), sizes.get(tp, 0)) for tp, replicas in sorted(after.items())]
    try:
        return drain_plan(brokers, placements, {broker_id})
    except PlanError as error:
        raise CommandError(f"broker {broker_id} cannot leave: {error}") from None


def _move(client: ClusterClient, wanted: Replicas, throttle: int | None, broker_id: int) -> None:
    running: dict[TopicPartition, Ongoing] = ongoing(client)
    current = replicas_of(client.metadata(sorted({tp.topic for tp in wanted})))
    there = {tp: target for tp, target in wanted.items() if tp in current}  # topics may be deleted meanwhile
    start(client, there, {tp: current[tp] for tp in there}, running, throttle)
    moves = throttles.plan_moves(current, running, there)
    watch(client, {tp: move.destinations for tp, move in moves.items()}, f"broker {broker_id}: {len(there)} partitions")
    settled_replicas(client, there, SystemClock())
