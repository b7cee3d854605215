"""Produce requests of which several are in flight at a time, for ``odradek bench``."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from network.client.cluster_client import ClusterClient
from network.client.connection import Connection, ConnectionFailed
from network.client.connection_pool import Versions, choose_version
from network.protocol.errors import ErrorCode
from network.protocol.messages.produce import ProduceRequest

Acknowledged = Callable[[int, Any], None]
"""Told the number that `send` was given, and the answer."""


class _Sent(NamedTuple):
    leader: int
    connection: Connection
    number: int
    partition: int
    request: ProduceRequest


class Pipeline:
    """Sends to the leaders of one topic's partitions, at most `depth` requests unanswered; `close` it.

    A connection is used for each leader. What a broker refuses with an error that passes, and what was in flight on a
    connection that broke, is sent again by itself, so records may then come twice or out of order.
    """

    def __init__(self, client: ClusterClient, topic: str, depth: int, acknowledged: Acknowledged) -> None:
        self._client = client
        self._topic = topic
        self._depth = depth
        self._acknowledged = acknowledged
        self._in_flight: deque[_Sent] = deque()
        self._connections: dict[int, tuple[Connection, Versions]] = {}
        self._open = contextlib.ExitStack()

    def send(self, number: int, partition: int, request: ProduceRequest) -> None:
        """Send one partition's records; first wait for room. Raises `ConnectionFailed`, `ApiError`."""
        while len(self._in_flight) >= self._depth:
            self._receive()
        leader = self._client.topic(self._topic).partitions[partition].leader
        answered = request.acks != 0
        try:
            connection, versions = self._connection(leader, partition)
            connection.send_request(request, choose_version(request.API_KEY, versions), answered=answered)
        except ConnectionFailed:
            self._connections.pop(leader, None)
            self._again(number, partition, request)
            return
        if answered:
            self._in_flight.append(_Sent(leader, connection, number, partition, request))
        else:
            self._acknowledged(number, None)

    def flush(self) -> None:
        """Wait for every answer."""
        while self._in_flight:
            self._receive()

    def close(self) -> None:
        self._open.close()

    def _connection(self, leader: int, partition: int) -> tuple[Connection, Versions]:
        found = self._connections.get(leader)
        if found is None:
            found = self._open.enter_context(self._client.leader_connection(self._topic, partition))
            self._connections[leader] = found
        return found

    def _receive(self) -> None:
        sent = self._in_flight.popleft()
        try:
            response: Any = sent.connection.receive_response()
        except ConnectionFailed:
            if self._connections.get(sent.leader, (None,))[0] is sent.connection:
                del self._connections[sent.leader]
            self._again(sent.number, sent.partition, sent.request)
            return
        code = response.responses[0].partition_responses[0].error_code
        if code and ErrorCode.of(code).retriable:
            self._again(sent.number, sent.partition, sent.request)
        else:
            self._acknowledged(sent.number, response)

    def _again(self, number: int, partition: int, request: ProduceRequest) -> None:
        self._acknowledged(number, self._client.call_leader(self._topic, partition, request))
