"""Groups, their members and how far they are behind."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from broker.cli.errors import CommandError
from broker.cli.group_offsets import committed_offsets
from broker.cli.group_view import view
from broker.http.console.access import Problem
from broker.http.console.api.question import Question
from broker.http.console.api.reading import LATEST, ask_each, offsets
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.client.connection import AuthenticationFailed, ConnectionFailed
from network.protocol.errors import ApiError
from network.protocol.messages.list_groups import ListGroupsRequest

LAGS_AT_ONCE = 40
_ASSIGNED_AT_MOST = 2_000


def groups(client: ClusterClient, _question: Question) -> Any:
    """A row for each group: id, protocol (classic or consumer), state, coordinator."""
    answers, silent = ask_each(client, client.brokers(), ListGroupsRequest())
    found = {
        each.group_id: [each.group_id, each.group_type or "classic", each.group_state, broker_id]
        for broker_id, answer in answers.items()
        for each in answer.groups
    }
    return {"groups": [row for _, row in sorted(found.items())], "silent": silent}


def lags(client: ClusterClient, question: Question) -> Any:
    """Records that each of the named groups has still to read, and in how many partitions; null where that cannot be
    told."""
    names = question.texts("groups", LAGS_AT_ONCE)
    committed: dict[str, dict[TopicPartition, int]] = {}
    for name in names:
        try:
            committed[name] = committed_offsets(client, name)
        except AuthenticationFailed:
            raise
        except (CommandError, ConnectionFailed, ApiError):
            continue
    ends = _ends(client, {tp for found in committed.values() for tp in found})
    return {"lags": {name: _lag(committed[name], ends) if name in committed else None for name in names}}


def group(client: ClusterClient, question: Question) -> Any:
    """One group: members, and each partition with its offset, end, lag and reader."""
    name = question.text("id")
    try:
        found = view(client, name)
        committed = committed_offsets(client, name)
        coordinator = client.coordinator(name).id
    except CommandError as error:
        raise Problem(HTTPStatus.FORBIDDEN, "group", str(error)) from None
    if not found.exists and not committed:
        raise Problem(HTTPStatus.NOT_FOUND, "group", "There is no such group.")
    owners = {tp: member.member_id for member in found.members for tp in member.partitions}
    everything = sorted({*committed, *owners})
    ends = _ends(client, set(everything[:_ASSIGNED_AT_MOST]))
    return {
        "id": name,
        "type": found.group_type,
        "state": found.state,
        "strategy": found.strategy,
        "coordinator": coordinator,
        "members": [
            {
                "id": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.client_host,
                "partitions": len(member.partitions),
            }
            for member in sorted(found.members, key=lambda member: member.member_id)
        ],
        "offsets": [
            [tp.topic, tp.partition, committed.get(tp), ends.get(tp), owners.get(tp)]
            for tp in everything[:_ASSIGNED_AT_MOST]
        ],
        "left_out": max(0, len(everything) - _ASSIGNED_AT_MOST),
    }


def _ends(client: ClusterClient, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    seen = client.metadata(sorted({tp.topic for tp in partitions}))
    return offsets(client, seen, partitions, LATEST)


def _lag(committed: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> list[int | None]:
    behind = [max(0, ends[tp] - offset) for tp, offset in committed.items() if tp in ends]
    return [sum(behind) if behind or not committed else None, len(committed)]
