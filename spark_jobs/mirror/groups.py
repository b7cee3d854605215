"""Groups of the source whose offsets are committed in the target, so that their consumers can move over.

As with MirrorMaker 2 (KIP-545) a group is left alone that has members in the target, and no offset is set back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from network.client.cluster_client import ClusterClient
from network.client.group_offsets import commit_offsets, fetch_offsets
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.list_groups import ListGroupsRequest
from spark_jobs.mirror.translation import Stretch, translated
from spark_jobs.options import Partition

_CONNECT = "connect"  # the protocol type of Kafka Connect's workers, whose groups have no offsets
_IN_USE = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)


def groups_of(client: ClusterClient, pattern: str) -> list[str]:
    """Groups of the whole cluster whose name matches. Raises ApiError and ConnectionFailed."""
    found = set()
    for broker in client.brokers():
        answer = client.call_broker(broker, ListGroupsRequest())
        if answer.error_code:
            raise ApiError(ErrorCode.of(answer.error_code), f"groups of broker {broker}")
        found |= {each.group_id for each in answer.groups if each.protocol_type != _CONNECT}
    return sorted(group for group in found if re.fullmatch(pattern, group))


def committed(client: ClusterClient, group: str) -> dict[Partition, tuple[int, str]]:
    """All offsets of a group, with what was committed beside them. Raises ApiError."""
    return {
        place: (each.offset, each.metadata) for place, each in fetch_offsets(client, group).items() if each.offset >= 0
    }


def bring_group(
    source: ClusterClient,
    target: ClusterClient,
    group: str,
    table: Mapping[Partition, Sequence[Stretch]],
    name_of: Callable[[str], str],
) -> dict[Partition, int]:
    """Commit a group's translated offsets in the target; `name_of` is the target's name of a topic.

    Returns what was committed: empty for a group that is in use there, or has nothing new. Raises ApiError.
    """
    there = committed(target, group)
    wanted: dict[Partition, tuple[int, str]] = {}
    for (topic, partition), (offset, metadata) in committed(source, group).items():
        place = (name_of(topic), partition)
        moved = translated(table.get((topic, partition), ()), offset)
        if moved is not None and moved > there.get(place, (-1, ""))[0]:
            wanted[place] = (moved, metadata)
    if not wanted:
        return {}
    done: dict[Partition, int] = {}
    for place, code in commit_offsets(target, group, wanted).items():
        if code is ErrorCode.NONE:
            done[place] = wanted[place][0]
        elif code not in _IN_USE:
            raise ApiError(code, f"group {group}, {place[0]}-{place[1]}")
    return done
