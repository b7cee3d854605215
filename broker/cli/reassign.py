"""``odradek reassign``: move replicas between brokers, with the same files as Kafka's own tool."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.filesize import decimal

from broker.cli import reassignment_throttles as throttles
from broker.cli import replica_directories as directories
from broker.cli.client import bootstrap_option, cluster, servers_option
from broker.cli.errors import CommandError
from broker.cli.output import line, note, say
from broker.cli.presence import check_targets, no_brokers
from broker.cli.progress import ByteProgress
from broker.cli.reassignment_files import (
    Reassignment,
    names,
    read_reassignment,
    read_topics,
    to_json,
)
from broker.cli.reassignments import (
    Ongoing,
    Watch,
    current_replicas,
    ongoing,
    replicas_of,
    settled_replicas,
    submit,
    wait_until_done,
)
from broker.cli.replica_sizes import largest_sizes
from broker.dev.polling import wait_until
from log.topic_partition import TopicPartition
from network.client.cluster_balance import Broker, Placement, PlanError, make_plan
from network.client.cluster_client import ClusterClient
from timer.clock import SystemClock

STALLED_MS = 600_000
DIRECTORIES_MS = 3_600_000

throttle_option = click.option(
    "--throttle", type=click.IntRange(1), metavar="BYTES/S", help="Limit of the copying on each broker."
)
preserve_option = click.option("--preserve-throttles", is_flag=True, help="Leave limits on brokers and topics.")


@click.group("reassign")
def command() -> None:
    """Move replicas between brokers: generate a plan, execute it, verify it until it is done."""


@command.command("generate")
@servers_option
@click.option("--topics-to-move-json-file", "topics_file", metavar="FILE", help='{"topics": [{"topic": "t"}]}')
@click.option("--topic", "topics", multiple=True, help="Topic to move; repeatable.")
@click.option("--all", "all_topics", is_flag=True, help="All topics.")
@click.option("--broker-list", metavar="0,1,2", help="Brokers that may hold replicas; all that run without it.")
@click.option("--disable-rack-aware", is_flag=True, help="Take no notice of racks.")
@click.option("--output", type=click.Path(dir_okay=False), help="Also write the plan here, for execute.")
def generate(
    bootstrap_server: str,
    topics_file: str | None,
    topics: tuple[str, ...],
    all_topics: bool,
    broker_list: str | None,
    disable_rack_aware: bool,
    output: str | None,
) -> None:
    """Plan: every broker of the list gets an equal share of bytes and leaders, others are emptied.

    Replicas of a partition are in as many racks as possible. As few bytes as possible travel, and only partitions that
    change are in the plan.
    """
    if sum([topics_file is not None, bool(topics), all_topics]) != 1:
        raise CommandError("give one of --topics-to-move-json-file, --topic and --all", exit_code=2)
    wanted = list(topics) if topics_file is None else read_topics(topics_file)
    allowed = None if broker_list is None else _broker_ids(broker_list)
    with cluster(bootstrap_server) as client:
        metadata = client.metadata(None if all_topics else wanted)
        for name in wanted:
            client.topic(name)  # fails for one that is not there
        sizes = largest_sizes(client)
    missing = (allowed or set()) - metadata.brokers.keys()
    if missing:
        raise CommandError(f"--broker-list names brokers that do not run: {', '.join(map(str, sorted(missing)))}")
    brokers = [
        Broker(each.id, None if disable_rack_aware else each.rack)
        for each in metadata.brokers.values()
        if allowed is None or each.id in allowed
    ]
    current = replicas_of(metadata)
    placements = [Placement(*tp, list(replicas), sizes.get(tp, 0)) for tp, replicas in sorted(current.items())]
    try:
        plan = make_plan(brokers, placements)
    except PlanError as error:
        raise CommandError(str(error)) from None
    proposed = {TopicPartition(p.topic, p.partition): p.replicas for p in plan.changed}
    click.echo("Current partition replica assignment")
    click.echo(to_json({tp: current[tp] for tp in proposed}))
    click.echo("\nProposed partition reassignment configuration")
    click.echo(to_json(proposed))
    if proposed:
        note(f"{len(proposed)} partitions change; {decimal(plan.bytes_moved)} travel.")
    else:
        note("Nothing has to move: replicas and leaders are balanced already.")
    if output is not None:
        Path(output).write_text(to_json(proposed) + "\n", encoding="utf-8")


@command.command("execute")
@click.argument("file")
@bootstrap_option
@throttle_option
@click.option(
    "--replica-alter-log-dirs-throttle",
    "log_dirs_throttle",
    type=click.IntRange(1),
    metavar="BYTES/S",
    help="Limit of the copying between log directories of a broker.",
)
@click.option("--additional", is_flag=True, help="Although other reassignments go on; also to change their limit.")
@click.option("--wait", "wait_for_end", is_flag=True, help="Show progress until all is done, then take limits away.")
def execute(
    file: str,
    bootstrap_server: str,
    throttle: int | None,
    log_dirs_throttle: int | None,
    additional: bool,
    wait_for_end: bool,
) -> None:
    """Start the reassignments of FILE. Replicas go to the log directories that it names for them."""
    plan = _plan(file)
    wanted = {tp: list(each.replicas) for tp, each in plan.items()}
    chosen = directories.wanted_directories(plan)
    with cluster(bootstrap_server) as client:
        running = ongoing(client)
        if running and not additional:
            raise CommandError(
                f"reassignments go on, of {names(running)}; --additional starts these beside them, or instead of them"
            )
        current = current_replicas(client, wanted)
        check_targets(client, _brokers(wanted))
        before = to_json({tp: running[tp].target if tp in running else current[tp] for tp in wanted})
        say(f"Current partition replica assignment, to go back to:\n\n{before}\n", before=json.loads(before))
        if log_dirs_throttle is not None:
            if not chosen:
                raise CommandError(f"{file} moves nothing between log directories", exit_code=2)
            throttles.limit_log_dirs(client, {replica.broker for replica in chosen}, log_dirs_throttle)
        directories.move(client, chosen, [replica for replica in chosen if replica.broker in current[replica.tp]])
        start(client, wanted, current, running, throttle)
        say(f"Started the reassignment of {names(wanted)}.", started=list(map(str, wanted)))
        if throttle is not None and not wait_for_end:
            line(f"Copying is limited to {throttle} B/s on each broker until verify finds it done.")
        if wait_for_end:
            moves = throttles.plan_moves(current, running, wanted)
            watch(client, {tp: move.destinations for tp, move in moves.items()}, "reassign")
            _wait_for_directories(client, chosen)
            _clear_limits(client, wanted)
            found = settled_replicas(client, wanted, SystemClock())
            for tp, target in sorted(wanted.items()):
                if found.get(tp) != target:
                    raise CommandError(f"reassignment of partition {tp} {_status(target, found.get(tp), None)}")
            say("All reassignments are complete.", completed=list(map(str, wanted)))


@command.command("verify")
@click.argument("file")
@bootstrap_option
@preserve_option
def verify(file: str, bootstrap_server: str, preserve_throttles: bool) -> None:
    """Whether the reassignments of FILE are done; when nothing goes on any more, limits are taken away.

    The exit code is 1 when FILE names partitions or brokers that are not there.
    """
    plan = _plan(file)
    wanted = {tp: list(each.replicas) for tp, each in plan.items()}
    chosen = directories.wanted_directories(plan)
    with cluster(bootstrap_server) as client:
        running = ongoing(client)
        ended = {tp: target for tp, target in wanted.items() if tp not in running}
        found = settled_replicas(client, ended, SystemClock()) if ended else {}
        line("Status of partition reassignment:")
        for tp, target in sorted(wanted.items()):
            status = _status(target, found.get(tp), running.get(tp))
            say(f"Reassignment of partition {tp} {status}.", partition=str(tp), target=target, status=status)
        there = directories.places(client, chosen)
        for replica, directory in sorted(chosen.items()):
            status = directories.status(directory, there[replica])
            say(f"Move of {replica} to {directory} {status}.", replica=str(replica), target=directory, status=status)
        moving = any(place.future is not None for place in there.values())
        if not running and not moving and not preserve_throttles:
            _clear_limits(client, wanted)
        _check_presence(client, wanted)


@command.command("cancel")
@click.argument("file")
@bootstrap_option
@preserve_option
def cancel(file: str, bootstrap_server: str, preserve_throttles: bool) -> None:
    """Stop the reassignments of FILE that go on; their partitions keep the replicas that they had before.

    The exit code is 1 when FILE names partitions that are not there.
    """
    wanted = _plan(file)
    with cluster(bootstrap_server) as client:
        running = ongoing(client)
        stopped = sorted(wanted.keys() & running.keys())
        if stopped:
            submit(client, dict.fromkeys(stopped))
            say(f"Cancelled the reassignment of {names(stopped)}.", cancelled=list(map(str, stopped)))
        kept = directories.cancel(client, directories.wanted_directories(wanted))
        if kept:
            moves = list(map(str, kept))
            say(f"Cancelled the moves between log directories of {', '.join(moves)}.", cancelled_moves=moves)
        if not stopped and not kept:
            line("None of these reassignments goes on.")
        if not preserve_throttles:
            _clear_limits(client, wanted, brokers_too=not running.keys() - wanted.keys())
        current_replicas(client, wanted)  # names those that do not exist


@command.command("list")
@bootstrap_option
def list_(bootstrap_server: str) -> None:
    """The reassignments that go on."""
    with cluster(bootstrap_server) as client:
        running = ongoing(client)
    if not running:
        line("No reassignment goes on.")
    for tp, each in sorted(running.items()):
        adding, removing = (",".join(map(str, ids)) or "-" for ids in (each.adding, each.removing))
        say(
            f"{tp}: replicas {','.join(map(str, each.replicas))}, adding {adding}, removing {removing}",
            partition=str(tp),
            replicas=each.replicas,
            adding=each.adding,
            removing=each.removing,
        )


def _plan(file: str) -> Reassignment:
    """What is in the file; one in which nothing has to move ends the command well."""
    plan = read_reassignment(file)
    if not plan:
        line(f"{file} moves nothing.")
        click.get_current_context().exit()
    return plan


def start(
    client: ClusterClient,
    wanted: dict[TopicPartition, list[int]],
    current: dict[TopicPartition, list[int]],
    running: dict[TopicPartition, Ongoing],
    throttle: int | None,
) -> None:
    """Start reassignments; with ``throttle`` these and those that go on copy at most so many bytes/s on a broker."""
    if throttle is not None:
        every = {tp: each.target for tp, each in running.items()} | wanted
        held = {tp: each.replicas for tp, each in running.items()} | current
        throttles.limit(client, throttles.plan_moves(held, running, every), throttle)
    submit(client, wanted)


def watch(client: ClusterClient, added: dict[TopicPartition, list[int]], what: str) -> None:
    """Show progress until these reassignments are done; ``added`` are the brokers that each partition gets."""
    watching = Watch(added, largest_sizes(client))
    try:
        with ByteProgress(what, watching.total) as bar:
            wait_until_done(client, watching, SystemClock(), bar.show, stalled_ms=STALLED_MS)
    except KeyboardInterrupt:
        click.echo("The copying that has started goes on; reassign list shows it.", err=True)
        raise


def _clear_limits(
    client: ClusterClient, wanted: Reassignment | dict[TopicPartition, list[int]], *, brokers_too: bool = True
) -> None:
    brokers = throttles.clear_brokers(client) if brokers_too else []
    topics = throttles.clear_topics(client, {tp.topic for tp in wanted})
    if brokers:
        say(f"Took the limits from brokers {', '.join(map(str, brokers))}.", unlimited_brokers=brokers)
    if topics:
        say(f"Took the throttled replicas from topics {', '.join(topics)}.", unlimited_topics=topics)


def _status(target: list[int], replicas: list[int] | None, running: Ongoing | None) -> str:
    if running is not None:
        return "is still in progress" if running.target == target else f"goes on, but to {running.target}"
    if replicas is None:
        return "cannot be: there is no such partition"
    if replicas == target:
        return "is completed"
    return f"is not active, but its replicas are {replicas} and not {target}"


def _wait_for_directories(client: ClusterClient, chosen: directories.Directories) -> None:
    """Until every replica is in its directory. Raises CommandError when the time is over."""

    def waiting() -> list[directories.Replica]:
        there = directories.places(client, chosen)
        return sorted(replica for replica, directory in chosen.items() if there[replica].current != directory)

    if chosen and not wait_until(lambda: not waiting(), SystemClock(), DIRECTORIES_MS, 500):
        left = ", ".join(map(str, waiting()))
        raise CommandError(f"replicas still move between log directories, verify tells when they are there: {left}")


def _brokers(wanted: dict[TopicPartition, list[int]]) -> set[int]:
    return {broker for replicas in wanted.values() for broker in replicas}


def _check_presence(client: ClusterClient, wanted: dict[TopicPartition, list[int]]) -> None:
    """Raises CommandError with partitions and brokers of a plan that are not there."""
    problems = []
    try:
        current_replicas(client, wanted)
    except CommandError as error:
        problems.append(str(error))
    missing = no_brokers(_brokers(wanted), client.brokers())
    if missing:
        problems.append(missing)
    if problems:
        raise CommandError("; ".join(problems))


def _broker_ids(text: str) -> set[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise CommandError(f"--broker-list {text!r} is not like 0,1,2", exit_code=2)
    return set(map(int, parts))
