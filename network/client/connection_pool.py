"""Connections of a client to the brokers of a cluster, and what versions each broker serves."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from network.client.cluster_metadata import BrokerAddress
from network.client.connection import Connection, ConnectionFailed, RequestTimedOut, SocketWrapper
from network.protocol.api import API
from network.protocol.errors import ErrorCode, ProtocolError
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.version import SOFTWARE_NAME, VERSION

if TYPE_CHECKING:
    from network.protocol.message import Request
    from timer.clock import Clock

CONNECTIONS_PER_BROKER = 16
IDLE_PER_BROKER = 4
KNOWN_ADDRESSES = 1024

_FIRST_ASKED = 3
_ANSWERED_ALWAYS = 0

VersionRange = tuple[int, int]
Versions = dict[int, VersionRange]


class UnsupportedVersion(Exception):
    """Broker and client have no version of an API in common."""


class ConnectionPool:
    """Keeps idle connections by address; thread-safe.

    At most `CONNECTIONS_PER_BROKER` connections are open to one address: one call more waits for one to come free.
    `IDLE_PER_BROKER` are kept for the next calls.
    """

    def __init__(
        self, client_id: str, clock: Clock, *, connect_timeout_ms: int, wrap: SocketWrapper | None = None
    ) -> None:
        self._client_id = client_id
        self._clock = clock
        self._connect_timeout_ms = connect_timeout_ms
        self._wrap = wrap
        self._condition = threading.Condition()
        self._idle: dict[tuple[str, int], list[Connection]] = {}
        self._open: dict[tuple[str, int], int] = {}
        self._busy: set[Connection] = set()
        self._versions: OrderedDict[tuple[str, int], Versions] = OrderedDict()
        self._closed = False

    def call(self, broker: BrokerAddress, message: Request, deadline_ms: int, max_version: int | None = None) -> Any:
        """One request, one answer, in the newest version that both sides know.

        Raises `ConnectionFailed`, `UnsupportedVersion`, `ProtocolError`.
        """
        connection = self._take(broker, deadline_ms)
        try:
            versions = self._versions.get((broker.host, broker.port))
            if versions is None:  # forgotten, to stay within the bound
                connection, versions = self._negotiate(broker, connection, deadline_ms)
            version = choose_version(message.API_KEY, versions, max_version)
            return connection.call(message, version, self._left(deadline_ms))
        finally:
            self._give_back(broker, connection)

    @contextlib.contextmanager
    def borrowed(self, broker: BrokerAddress, deadline_ms: int) -> Iterator[tuple[Connection, Versions]]:
        """A connection for one user who has several requests in flight on it, and what its broker serves.

        One with unanswered requests is closed at the end. Raises `ConnectionFailed`, `UnsupportedVersion`.
        """
        connection = self._take(broker, deadline_ms)
        try:
            versions = self._versions.get((broker.host, broker.port))
            if versions is None:  # forgotten, to stay within the bound
                connection, versions = self._negotiate(broker, connection, deadline_ms)
            yield connection, dict(versions)
        finally:
            self._give_back(broker, connection)

    def versions(self, broker: BrokerAddress, deadline_ms: int) -> Versions:
        """API key to (first, last) version that the broker serves."""
        known = self._versions.get((broker.host, broker.port))
        if known is None:
            self._give_back(broker, self._take(broker, deadline_ms))
            known = self._versions[(broker.host, broker.port)]
        return dict(known)

    def close(self) -> None:
        """Close every connection; calls that wait for an answer fail."""
        with self._condition:
            self._closed = True
            connections = [each for idle in self._idle.values() for each in idle] + list(self._busy)
            self._idle.clear()
            self._condition.notify_all()
        for connection in connections:
            connection.close()

    def _left(self, deadline_ms: int) -> int:
        return max(1, deadline_ms - self._clock.monotonic_ms())

    def _take(self, broker: BrokerAddress, deadline_ms: int) -> Connection:
        address = (broker.host, broker.port)
        with self._condition:
            while True:
                if self._closed:
                    raise ConnectionFailed("the client is closed")
                idle = self._idle.get(address)
                if idle:
                    connection = idle.pop()
                    self._busy.add(connection)
                    return connection
                if self._open.get(address, 0) < CONNECTIONS_PER_BROKER:
                    self._open[address] = self._open.get(address, 0) + 1
                    break
                left = deadline_ms - self._clock.monotonic_ms()
                if left <= 0:
                    raise RequestTimedOut(f"no connection to {broker} came free in time")
                self._clock.wait(self._condition, left)
        opened: Connection | None = None
        try:
            opened = self._connect(broker, deadline_ms)
            opened, _ = self._negotiate(broker, opened, deadline_ms)
            return opened
        except BaseException:
            if opened is not None:
                opened.close()
            self._forget_one(address)
            raise

    def _connect(self, broker: BrokerAddress, deadline_ms: int) -> Connection:
        timeout = min(self._connect_timeout_ms, self._left(deadline_ms))
        connection = Connection(broker.host, broker.port, self._client_id, self._clock, timeout, wrap=self._wrap)
        with self._condition:
            self._busy.add(connection)
            if self._closed:
                connection.close()
        return connection

    def _negotiate(
        self, broker: BrokerAddress, connection: Connection, deadline_ms: int
    ) -> tuple[Connection, Versions]:
        """Ask for the broker's versions. One that does not know our version of the question answers in version 0."""
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=VERSION)
        try:
            response = connection.call(request, _FIRST_ASKED, self._left(deadline_ms))
        except ProtocolError:
            response = None
        if response is None or response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            connection.close()
            with self._condition:
                self._busy.discard(connection)
            connection = self._connect(broker, deadline_ms)
            response = connection.call(ApiVersionsRequest(), _ANSWERED_ALWAYS, self._left(deadline_ms))
        if response.error_code:
            raise UnsupportedVersion(f"{broker} answers ApiVersions with {ErrorCode.of(response.error_code).name}")
        versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        with self._condition:
            self._versions[(broker.host, broker.port)] = versions
            if len(self._versions) > KNOWN_ADDRESSES:
                self._versions.popitem(last=False)
        return connection, versions

    def _give_back(self, broker: BrokerAddress, connection: Connection) -> None:
        address = (broker.host, broker.port)
        with self._condition:
            idle = self._idle.setdefault(address, [])
            keep = not (connection.closed or connection.in_flight or self._closed) and len(idle) < IDLE_PER_BROKER
            if keep:
                self._busy.discard(connection)
                idle.append(connection)
                self._condition.notify()
        if not keep:
            connection.close()
            self._forget_one(address)

    def _forget_one(self, address: tuple[str, int]) -> None:
        with self._condition:
            self._busy = {each for each in self._busy if not each.closed}
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]
            self._condition.notify()


def choose_version(api_key: int, served: Versions, max_version: int | None = None) -> int:
    """The newest version of an API that we and the broker know. Raises `UnsupportedVersion`."""
    spec = API[api_key]
    if api_key not in served:
        raise UnsupportedVersion(f"the broker does not serve {spec.name}")
    low, high = served[api_key]
    newest = spec.max_version if max_version is None else min(spec.max_version, max_version)
    version = min(high, newest)
    if version < max(low, spec.min_version):
        raise UnsupportedVersion(
            f"the broker serves {spec.name} in versions {low} to {high}, wanted is at most {newest}"
        )
    return version
