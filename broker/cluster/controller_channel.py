"""Requests of this broker to the active controller: AlterPartition, AllocateProducerIds.

One request is in flight at a time. The controller is the one that this broker's metadata names; an answer
NOT_CONTROLLER, or a lost connection, puts the request back to the front of the queue, and the controller is looked up
again. So does an unexpected error, after which the worker backs off: a request is never lost, for its sender may have
only that one.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from broker.cluster.metadata_cache import MetadataCache, Node
from network.client.connection import Connection, ConnectionFailed, CorrelationIds, SocketWrapper
from network.protocol.api import API, ApiKey
from network.protocol.errors import ErrorCode, ProtocolError
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.version import SOFTWARE_NAME, VERSION
from timer.clock import Clock
from timer.news import News, of_error
from timer.worker import Worker, Workers

logger = logging.getLogger(__name__)

LOOK_UP_BACKOFF_MS = 100
RECONNECT_BACKOFF_MS = 50

Connect = Callable[[Node], Connection]
Callback = Callable[[Any], None]
Build = Callable[[int], Any]
"""Makes the request for the version that was negotiated."""


@dataclass(slots=True)
class _Item:
    api: ApiKey
    build: Build
    max_version: int
    callback: Callback


class ControllerChannel:
    """`send` never blocks; callbacks run on the channel's thread.

    At most `capacity` requests wait; more are a fault of this program, for each sender has at most one outstanding.
    """

    def __init__(
        self,
        name: str,
        metadata_cache: MetadataCache,
        listener_name: str,
        clock: Clock,
        connect: Connect,
        capacity: int = 100,
        workers: Workers | None = None,
    ) -> None:
        self._metadata_cache = metadata_cache
        self._listener_name = listener_name
        self._connect = connect
        self._capacity = capacity
        self._queue: deque[_Item] = deque()
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._node: Node | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._failures = News(clock)
        self._worker = Worker(name, self.step, clock, interrupt=self._disconnect, workers=workers)

    def start(self) -> None:
        self._worker.start()

    def send(self, api: ApiKey, build: Build, callback: Callback, max_version: int | None = None) -> None:
        """Queue a request; `callback` gets its answer. Requests that wait at shutdown are dropped."""
        limit = API[api].max_version if max_version is None else max_version
        with self._lock:
            if len(self._queue) >= self._capacity:
                raise RuntimeError("too many requests to the controller are waiting")
            self._queue.append(_Item(api, build, limit, callback))
        self._worker.wake()

    def shutdown(self) -> None:
        self._worker.stop()

    def step(self) -> float | None:
        """Handle the oldest request. Returns how long to wait before the next step, None if there is no request."""
        with self._lock:
            if not self._queue:
                return None
            item = self._queue[0]
        if not self._ready():
            return LOOK_UP_BACKOFF_MS
        assert self._connection is not None
        try:
            version = self._version(item)
            response = self._connection.call(item.build(version), version)
        except (ConnectionFailed, ProtocolError) as error:
            if not self._worker.is_stopping and self._failures.is_new(self._node, of_error(error)):
                logger.info("connection to controller %s failed: %s", self._node, error)
            self._disconnect()
            return RECONNECT_BACKOFF_MS
        except Exception:
            self._disconnect()  # whatever was sent is not answered to anybody else
            raise
        if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
            self._disconnect()
            return RECONNECT_BACKOFF_MS
        self._failures.is_over(self._node)
        with self._lock:
            self._queue.popleft()
        item.callback(response)
        return 0

    def _version(self, item: _Item) -> int:
        low, high = self._versions.get(item.api, (0, item.max_version))
        version = min(high, item.max_version)
        if version < low:
            raise ProtocolError(f"the controller serves {item.api.name} from version {low} on")
        return version

    def _ready(self) -> bool:
        """Whether there is a connection to the broker that the metadata calls the controller."""
        controller_id = self._metadata_cache.controller_id
        node = None
        if controller_id is not None:
            node = self._metadata_cache.broker_node(controller_id, self._listener_name)
        if node is None:
            return False
        if self._connection is not None and node == self._node and not self._connection.closed:
            return True
        self._disconnect()
        try:
            connection = self._connect(node)
            self._versions = _negotiate(connection)
        except (ConnectionFailed, ProtocolError) as error:
            if self._failures.is_new(node, of_error(error)):
                logger.info("cannot reach controller %d at %s:%d: %s", node.id, node.host, node.port, error)
            return False
        self._connection, self._node = connection, node
        return True

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _negotiate(connection: Connection) -> dict[int, tuple[int, int]]:
    """Ask for the versions that the other side serves."""
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=VERSION)
    version = API[ApiKey.API_VERSIONS].max_version
    response = connection.call(request, version)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        response = connection.call(request, 0)
    return {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}


def connector(client_id: str, clock: Clock, timeout_ms: int, wrap: SocketWrapper | None = None) -> Connect:
    """Connections that go on counting correlation ids over reconnects; `wrap` adds TLS or SASL."""
    ids = CorrelationIds()

    def connect(node: Node) -> Connection:
        return Connection(
            node.host, node.port, client_id, clock, timeout_ms, timeout_ms, correlation_ids=ids, wrap=wrap
        )

    return connect
