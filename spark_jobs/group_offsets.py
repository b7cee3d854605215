"""The offsets of a consumer group that a query shows its progress in, and may start from (``odradek.group.id``).

Nobody joins the group: offsets are committed as an administrator's are, so a group that has living members refuses
them. The checkpoint stays the truth; what is committed is for those who look at lag. So a commit that fails is warned
of and counted, and never ends a query.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from network.client.cluster_client import ClusterClient
from network.client.group_offsets import commit_offsets, fetch_offsets
from network.protocol.errors import ApiError, ErrorCode
from spark_jobs.options import Partition
from timer.clock import Clock

logger = logging.getLogger(__name__)

# How long each step of a commit may take (two, if a coordinator must be found), and how long a group that failed is
# left alone.
COMMIT_TIMEOUT_MS = 3_000
PAUSE_MS = 10_000
_CURES = {
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has living members: give the query a group of its own",
    ErrorCode.ILLEGAL_GENERATION: "the group has living members: give the query a group of its own",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "allow the principal READ on the group",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "allow the principal READ on the topic",
}


def committed_offsets(
    client: ClusterClient, group: str, partitions: Iterable[Partition], timeout_ms: int | None = None
) -> dict[Partition, int]:
    """What a group has committed for these partitions; those without an offset are left out.

    Raises ApiError, also UNSTABLE_OFFSET_COMMIT while a transaction is about to change one, and OSError.
    """
    found = {}
    for place, each in fetch_offsets(client, group, partitions, stable=True, timeout_ms=timeout_ms).items():
        if each.error is not ErrorCode.NONE:
            raise ApiError(each.error, f"offsets of group {group}")
        if each.offset >= 0:
            found[place] = each.offset
    return found


class GroupCommits:
    """Commits where a query is, each position once. ``commits`` and ``failures`` count the attempts."""

    def __init__(self, client: ClusterClient, group: str, clock: Clock) -> None:
        self._client = client
        self._group = group
        self._clock = clock
        self._last: dict[Partition, int] = {}
        self._not_before_ms = clock.monotonic_ms()
        self.commits = 0
        self.failures = 0

    def commit(self, position: Mapping[Partition, int]) -> None:
        """Show that the query has read up to here. What fails is logged, and tried again with a later call."""
        if position == self._last or not position or self._clock.monotonic_ms() < self._not_before_ms:
            return
        try:
            refused = self._send(position)
        except ApiError as error:
            refused = {_why(error.code): len(position)}
        except OSError as error:
            refused = {str(error): len(position)}
        if not refused:
            self.commits += 1
            self._last = dict(position)
            return
        self.failures += 1
        self._not_before_ms = self._clock.monotonic_ms() + PAUSE_MS
        logger.warning(
            "group %s did not take offsets of the query (%s); the query goes on, %d commits failed so far",
            self._group,
            ", ".join(f"{why}: {count} partitions" for why, count in refused.items()),
            self.failures,
        )

    def _send(self, position: Mapping[Partition, int]) -> dict[str, int]:
        """The number of partitions by why they were refused."""
        offsets = {place: (offset, "") for place, offset in position.items()}
        codes = Counter(commit_offsets(self._client, self._group, offsets, COMMIT_TIMEOUT_MS).values())
        return {_why(code): count for code, count in codes.items() if code is not ErrorCode.NONE}


def _why(code: ErrorCode) -> str:
    return f"{code.name}, {_CURES[code]}" if code in _CURES else code.name
