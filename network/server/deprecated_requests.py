"""Requests in versions that Kafka 4 has no more, by the software that sends them (`DeprecatedRequestsPerSec`).

A client names its software and version itself. The first `MAX_CLIENTS` of them have series of their own; what others
send counts as of `OTHER`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timer.metrics import Meter, Metrics

MAX_CLIENTS = 100
OTHER = ("other", "other")

Client = tuple[str, str]
"""The names of the software and of its version."""


class DeprecatedRequests:
    """The meters of one processor; they are the registry's, so several processors count together."""

    def __init__(self, metrics: Metrics, group: str, type_: str) -> None:
        self._metrics = metrics
        self._group = group
        self._type = type_
        self._clients: set[Client] = set()
        self._meters: dict[tuple[str, int, Client], Meter] = {}

    def mark(self, request: str, version: int, client: Client, count: int) -> None:
        if client not in self._clients:
            if len(self._clients) < MAX_CLIENTS:
                self._clients.add(client)
            else:
                client = OTHER
        found = self._meters.get((request, version, client))
        if found is None:
            software, software_version = client
            found = self._metrics.meter(
                self._group,
                self._type,
                "DeprecatedRequestsPerSec",
                request=request,
                version=str(version),
                clientSoftwareName=software,
                clientSoftwareVersion=software_version,
            )
            self._meters[(request, version, client)] = found
        found.mark(count)
