"""``odradek groups``: list and describe consumer groups, move and delete their offsets, delete groups."""

from __future__ import annotations

from typing import Any

import click

from broker.cli.client import bootstrap_option, cluster, describe
from broker.cli.errors import CommandError
from broker.cli.group_offsets import (
    as_partitions,
    commit_offsets,
    committed_offsets,
    end_offsets,
    new_offsets,
    parse_target,
)
from broker.cli.group_view import GroupView, view
from broker.cli.output import note, rows, say
from log.topic_partition import TopicPartition
from network.client.cluster_client import GROUP_COORDINATOR, ClusterClient
from network.protocol.errors import ErrorCode
from network.protocol.messages.delete_groups import DeleteGroupsRequest
from network.protocol.messages.list_groups import ListGroupsRequest
from network.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

_STATES = ["Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Dead"]


@click.group("groups")
def command() -> None:
    """Look at consumer groups and change their offsets."""


@command.command("list")
@bootstrap_option
@click.option("--state", "show_state", is_flag=True, help="Show the state of each group.")
@click.option("--in-state", multiple=True, type=click.Choice(_STATES, case_sensitive=False), help="Only these states.")
def list_(bootstrap_server: str, show_state: bool, in_state: tuple[str, ...]) -> None:
    """List the groups of all brokers, sorted."""
    with cluster(bootstrap_server) as client:
        groups = _list(client, in_state)
    if show_state or in_state:
        rows(["GROUP", "TYPE", "STATE"], [[g.group_id, g.group_type, g.group_state] for g in groups])
    else:
        for group in groups:
            say(group.group_id, group=group.group_id, type=group.group_type, state=group.group_state)


@command.command("describe")
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
@bootstrap_option
@click.option("--members", is_flag=True, help="Show the members and how many partitions they have.")
@click.option("--state", "show_state", is_flag=True, help="Show coordinator, assignment strategy and state.")
@click.option("--verbose", is_flag=True, help="With --members: show what each one is assigned.")
def describe_(groups: tuple[str, ...], bootstrap_server: str, members: bool, show_state: bool, verbose: bool) -> None:
    """Describe the groups: offsets, ends and lag of each partition, and who reads it. All groups without a name."""
    missing = []
    with cluster(bootstrap_server) as client:
        wanted = groups or tuple(group.group_id for group in _list(client, ()))
        for group_id in wanted:
            found = view(client, group_id)
            if not found.exists:
                missing.append(group_id)
            elif show_state:
                _print_state(client, found)
            elif members:
                _print_members(found, verbose)
            else:
                _print_offsets(client, found)
    if missing:
        raise CommandError(f"no such group: {', '.join(missing)}; `odradek groups list` shows the groups")


@command.command("delete")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@bootstrap_option
def delete(groups: tuple[str, ...], bootstrap_server: str) -> None:
    """Delete groups without members, and their offsets."""
    failed = []
    with cluster(bootstrap_server) as client:
        for group_id in groups:
            request = DeleteGroupsRequest(groups_names=[group_id])
            (result,) = client.call_coordinator(group_id, GROUP_COORDINATOR, request).results
            if result.error_code:
                failed.append(f"{group_id}: {describe(result.error_code, None)}")
            else:
                say(f"Deleted group {group_id}.", group=group_id, deleted=True)
    if failed:
        raise CommandError("; ".join(failed))


@command.command("delete-offsets")
@click.argument("group")
@bootstrap_option
@click.option("--topic", "topics", multiple=True, required=True, metavar="TOPIC[:0,1]", help="Repeatable.")
def delete_offsets(group: str, bootstrap_server: str, topics: tuple[str, ...]) -> None:
    """Forget the offsets of GROUP in topics that it does not read."""
    with cluster(bootstrap_server) as client:
        partitions = as_partitions(client, topics)
        by_topic: dict[str, list[int]] = {}
        for partition in partitions:
            by_topic.setdefault(partition.topic, []).append(partition.partition)
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
                )
                for name, indexes in by_topic.items()
            ],
        )
        answer = client.call_coordinator(group, GROUP_COORDINATOR, request)
    if answer.error_code:
        raise CommandError(f"{group}: {describe(answer.error_code, None)}")
    found, failed = [], False
    for topic in answer.topics:
        for each in sorted(topic.partitions, key=lambda partition: partition.partition_index):
            failed = failed or each.error_code != 0
            status = describe(each.error_code, None) if each.error_code else "deleted"
            found.append([topic.name, each.partition_index, status])
    rows(["TOPIC", "PARTITION", "STATUS"], found)
    if failed:
        raise CommandError("some offsets were not deleted")


@command.command("reset-offsets")
@click.argument("group")
@bootstrap_option
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:0,1]", help="Repeatable.")
@click.option("--all-topics", is_flag=True, help="All topics that the group has offsets in.")
@click.option("--to-earliest", is_flag=True, help="The first offset of each partition.")
@click.option("--to-latest", is_flag=True, help="The end of each partition.")
@click.option("--to-current", is_flag=True, help="What is committed now.")
@click.option("--to-offset", type=click.IntRange(0), help="This offset, kept between first and end.")
@click.option("--shift-by", type=int, help="So many records on from what is committed, or back if negative.")
@click.option("--to-datetime", metavar="ISO8601", help="The first record at or after this time; UTC without a zone.")
@click.option("--by-duration", metavar="PnDTnHnMnS", help="The first record of the last so long.")
@click.option("--execute", is_flag=True, help="Commit; without it the offsets are only shown.")
@click.option("--dry-run", is_flag=True, help="Only show the offsets (this is also the default).")
def reset_offsets(
    group: str,
    bootstrap_server: str,
    topics: tuple[str, ...],
    all_topics: bool,
    execute: bool,
    dry_run: bool,
    **choice: Any,
) -> None:
    """Set the offsets of GROUP, which must have no members. Shows what would be set; --execute sets it."""
    if bool(topics) == all_topics:
        raise CommandError("give --topic or --all-topics", exit_code=2)
    if execute and dry_run:
        raise CommandError("--execute and --dry-run exclude each other", exit_code=2)
    target = parse_target(choice)
    with cluster(bootstrap_server) as client:
        state = view(client, group).state
        if state not in ("Empty", "Dead"):
            raise CommandError(f"group {group} is {state}: its members must be gone before its offsets can be set")
        committed = committed_offsets(client, group)
        partitions = sorted(committed) if all_topics else as_partitions(client, topics)
        if not partitions:
            raise CommandError(f"group {group} has no offsets")
        found = new_offsets(client, partitions, committed, target)
        if execute:
            _commit(client, group, found)
    shown = [[group, partition.topic, partition.partition, offset] for partition, offset in found.items()]
    rows(["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], shown)
    if not execute:
        note("Nothing was changed: --execute sets these offsets.")


def _commit(client: ClusterClient, group: str, offsets: dict[TopicPartition, int]) -> None:
    errors = set(commit_offsets(client, group, offsets))
    if errors:
        raise CommandError("; ".join(describe(code, None) for code in sorted(errors)))


def _list(client: ClusterClient, states: tuple[str, ...]) -> list[Any]:
    groups: dict[str, Any] = {}
    for broker_id in sorted(client.brokers()):
        answer = client.call_broker(broker_id, ListGroupsRequest(states_filter=list(states)))
        if answer.error_code not in (0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            raise CommandError(f"broker {broker_id}: {describe(answer.error_code, None)}")
        groups.update((group.group_id, group) for group in answer.groups)
    return [groups[name] for name in sorted(groups)]


def _print_offsets(client: ClusterClient, group: GroupView) -> None:
    committed = committed_offsets(client, group.group_id)
    owners = {partition: member for member in group.members for partition in member.partitions}
    partitions = sorted(set(committed) | set(owners))
    ends = end_offsets(client, partitions)
    found: list[list[object]] = []
    for partition in partitions:
        offset, end, owner = committed.get(partition), ends.get(partition), owners.get(partition)
        lag = None if offset is None or end is None else end - offset
        who = [None, None, None] if owner is None else [owner.member_id, owner.client_host, owner.client_id]
        found.append([group.group_id, *partition, offset, end, lag, *who])
    if not group.members:
        note(f"Group {group.group_id} has no active members.")
    heads = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    rows(heads.split(), found)


def _print_members(group: GroupView, verbose: bool) -> None:
    heads = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    found: list[list[object]] = []
    for member in sorted(group.members, key=lambda member: member.member_id):
        partitions = member.partitions
        row: list[object] = [
            group.group_id,
            member.member_id,
            member.instance_id or None,
            member.client_host,
            member.client_id,
        ]
        row.append(len(partitions))
        if verbose:
            row.append(_by_topic(partitions) or None)
        found.append(row)
    rows([*heads, "ASSIGNMENT"] if verbose else heads, found)


def _print_state(client: ClusterClient, group: GroupView) -> None:
    coordinator = client.coordinator(group.group_id)
    where = f"{coordinator.host}:{coordinator.port} ({coordinator.id})"
    heads = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    rows(heads, [[group.group_id, where, group.strategy, group.state, len(group.members)]])


def _by_topic(partitions: list[TopicPartition]) -> str:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return ", ".join(f"{name}({','.join(map(str, indexes))})" for name, indexes in topics.items())
