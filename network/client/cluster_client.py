"""A blocking client of a whole cluster, for command line tools and jobs.

It finds the right broker for a request (any, a given one, the controller, a partition's leader, a group's coordinator),
in the newest version that both know, and tries again within the time that a call has when a connection breaks or the
broker turns out to be the wrong one.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from network.client.cluster_metadata import BrokerAddress, ClusterMetadata, TopicMetadata
from network.client.connection import (
    AuthenticationFailed,
    Connection,
    ConnectionFailed,
    RequestTimedOut,
    SocketWrapper,
)
from network.client.connection_pool import ConnectionPool, UnsupportedVersion, Versions
from network.protocol.api import API
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.find_coordinator import FindCoordinatorRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from network.protocol.message import Request
    from timer.clock import Clock

__all__ = ["ClusterClient", "ClusterMetadata", "ClusterUnavailable", "UnsupportedVersion"]

GROUP_COORDINATOR = 0
TRANSACTION_COORDINATOR = 1

_WRONG_CONTROLLER = frozenset({ErrorCode.NOT_CONTROLLER})
_WRONG_LEADER = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_WRONG_COORDINATOR = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_DENIED = frozenset({ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
_REPEAT = frozenset({ErrorCode.THROTTLING_QUOTA_EXCEEDED})
# A topic that was made a moment ago is not known to every broker yet, and has no leader for a moment.
_NOT_YET = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})
_FIRST_BOOTSTRAP_ID = -1
# A broker can hang with its socket open; this many may do so before a call that any broker can answer fails.
_ANY_ATTEMPTS = 3
_ONE_KEY = 3  # the last version of FindCoordinator that asks for a single key


class ClusterUnavailable(ConnectionFailed):
    """No broker could be reached, or none that can serve the request, in the time that the call had."""


class ClusterClient:
    """Thread-safe; `close` it, or use it as a context manager. Times are milliseconds.

    A call that goes on failing with an error that may pass (a leader election, say) returns the last answer when its
    time is over, so the caller sees the broker's own error; where there was no answer it raises `ClusterUnavailable`.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        client_id: str,
        clock: Clock,
        *,
        request_timeout_ms: int = 30_000,
        connect_timeout_ms: int = 10_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        metadata_max_age_ms: int = 300_000,
        topic_patience_ms: int = 1_000,
        wrap: SocketWrapper | None = None,
    ) -> None:
        """`bootstrap` is `host:port,host:port` or a list. `topic_patience_ms` is how long a topic that a broker does
        not know is asked for again, as it may have been made a moment ago. Raises ValueError for an address that is
        none."""
        self._bootstrap = parse_bootstrap(bootstrap)
        self._clock = clock
        self._request_timeout_ms = request_timeout_ms
        self._backoff_ms = retry_backoff_ms
        self._backoff_max_ms = retry_backoff_max_ms
        self._max_age_ms = metadata_max_age_ms
        self._patience_ms = topic_patience_ms
        self._pool = ConnectionPool(client_id, clock, connect_timeout_ms=connect_timeout_ms, wrap=wrap)
        self._condition = threading.Condition()
        self._closed = False
        self._brokers: dict[int, BrokerAddress] = {}
        self._controller_id = -1
        self._cluster_id: str | None = None
        self._topics: dict[str, tuple[TopicMetadata, int]] = {}  # with the time it was read
        self._coordinators: dict[tuple[int, str], BrokerAddress] = {}
        self._turn = 0

    def __enter__(self) -> ClusterClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; calls in other threads fail."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._pool.close()

    # -- what the cluster looks like -----------------------------------------------------------------------------

    def metadata(self, topics: Iterable[str] | None = None, timeout_ms: int | None = None) -> ClusterMetadata:
        """Ask a broker for these topics (None: all), and remember what it says. Creates no topic."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        result = ClusterMetadata.of(self.call_any(request, timeout_ms))
        now = self._clock.monotonic_ms()
        with self._condition:
            self._brokers = dict(result.brokers)
            self._controller_id = result.controller_id
            self._cluster_id = result.cluster_id
            if wanted is None:
                self._topics.clear()
            for name, topic in result.topics.items():
                if topic.error is ErrorCode.NONE:
                    self._topics[name] = (topic, now)
                else:
                    self._topics.pop(name, None)
        return result

    def topic(self, name: str, *, refresh: bool = False) -> TopicMetadata:
        """A topic's metadata, from memory when it is fresh. Raises `ApiError` with the topic's error; before it says
        that there is no such topic it asks again for the client's `topic_patience_ms`, as brokers hear of a new topic
        one after the other."""
        with self._condition:
            known = self._topics.get(name)
        if not refresh and known is not None and self._clock.monotonic_ms() - known[1] < self._max_age_ms:
            return known[0]
        deadline = self._deadline(self._patience_ms)
        while True:
            found = self.metadata([name]).topics.get(name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error
            if found is not None and code is ErrorCode.NONE:
                return found
            left = deadline - self._clock.monotonic_ms()
            if code not in _NOT_YET or left <= 0:
                raise ApiError(code, name)
            self._pause(min(self._backoff_ms, left))

    def brokers(self) -> dict[int, BrokerAddress]:
        """The live brokers as last heard of; asks if nothing has been heard."""
        if not self._brokers:
            self.metadata([])
        with self._condition:
            return dict(self._brokers)

    def versions(self, broker_id: int) -> Versions:
        """API key to (first, last) version that the broker serves."""
        return self._pool.versions(self._address(broker_id), self._deadline(None))

    # -- calls ---------------------------------------------------------------------------------------------------

    def call_any(self, message: Request, timeout_ms: int | None = None, *, max_version: int | None = None) -> Any:
        """Call whichever broker answers. One that does not is given up for another after a part of the time."""
        return self._retry(message, timeout_ms, max_version, self._some_broker, frozenset(), None, _ANY_ATTEMPTS)

    def call_broker(
        self, broker_id: int, message: Request, timeout_ms: int | None = None, *, max_version: int | None = None
    ) -> Any:
        """Call one broker."""
        return self._retry(
            message,
            timeout_ms,
            max_version,
            lambda: self._address(broker_id),
            frozenset(),
            lambda: self.metadata([]),
        )

    def call_controller(
        self, message: Request, timeout_ms: int | None = None, *, max_version: int | None = None
    ) -> Any:
        """Call the controller, also when it moves meanwhile."""
        return self._retry(
            message, timeout_ms, max_version, self._controller, _WRONG_CONTROLLER, lambda: self.metadata([])
        )

    def call_leader(
        self,
        topic: str,
        partition: int,
        message: Request,
        timeout_ms: int | None = None,
        *,
        max_version: int | None = None,
    ) -> Any:
        """Call the leader of a partition. Every partition that `message` names must have the same leader."""
        return self._retry(
            message,
            timeout_ms,
            max_version,
            lambda: self._leader(topic, partition),
            _WRONG_LEADER,
            lambda: self.metadata([topic]),
        )

    def leader_connection(
        self, topic: str, partition: int
    ) -> contextlib.AbstractContextManager[tuple[Connection, Versions]]:
        """A connection to the leader for one user who has several requests in flight on it; nothing is tried again.

        Raises `ApiError` when there is no leader, on entering `ConnectionFailed`.
        """
        return self._pool.borrowed(self._leader(topic, partition), self._deadline(None))

    def coordinator(self, key: str, key_type: int = GROUP_COORDINATOR, *, refresh: bool = False) -> BrokerAddress:
        """The broker that coordinates a group or a transactional id. Raises `ApiError` when the answer is an error
        that does not pass, or did not in time; the text of a refusal is then the key alone, as brokers give none."""
        with self._condition:
            known = self._coordinators.get((key_type, key))
        if known is not None and not refresh:
            return known
        request = FindCoordinatorRequest(key=key, key_type=key_type)
        found = self._retry(request, None, _ONE_KEY, self._some_broker, _WRONG_COORDINATOR, None, _ANY_ATTEMPTS)
        if found.error_code:
            code = ErrorCode.of(found.error_code)
            raise ApiError(code, key if code in _DENIED else found.error_message)
        address = BrokerAddress(found.node_id, found.host, found.port)
        with self._condition:
            self._coordinators[(key_type, key)] = address
        return address

    def call_coordinator(
        self,
        key: str,
        key_type: int,
        message: Request,
        timeout_ms: int | None = None,
        *,
        max_version: int | None = None,
    ) -> Any:
        """Call the coordinator of a group or a transactional id, also when it moves meanwhile."""
        return self._retry(
            message,
            timeout_ms,
            max_version,
            lambda: self.coordinator(key, key_type),
            _WRONG_COORDINATOR,
            lambda: self.coordinator(key, key_type, refresh=True),
        )

    # -- how -----------------------------------------------------------------------------------------------------

    def _deadline(self, timeout_ms: int | None) -> int:
        limit = self._request_timeout_ms if timeout_ms is None else timeout_ms
        return self._clock.monotonic_ms() + limit

    def _retry(
        self,
        message: Request,
        timeout_ms: int | None,
        max_version: int | None,
        target: Callable[[], BrokerAddress],
        wrong: frozenset[ErrorCode],
        refresh: Callable[[], object] | None,
        attempts: int = 1,
    ) -> Any:
        """Call `target()` until the answer has none of the `wrong` errors or the time is over. One call may take the
        time that is left, or of the whole time only the part that lets so many `attempts` wait for an answer."""
        deadline = self._deadline(timeout_ms)
        attempt_ms = (deadline - self._clock.monotonic_ms()) // attempts
        backoff = self._backoff_ms
        codes = API[message.API_KEY].error_codes
        response: Any = None
        failure: Exception | None = None
        while True:
            if self._closed:
                raise ConnectionFailed("the client is closed")
            try:
                limit = min(deadline, self._clock.monotonic_ms() + attempt_ms)
                response = self._pool.call(target(), message, limit, max_version)
                passing = (wrong | _REPEAT).intersection(map(ErrorCode.of, set(codes(response))))
                if not passing:
                    return response
            except AuthenticationFailed:
                raise
            except ConnectionFailed as error:
                # The last attempt may have had little time: what went wrong before tells more.
                if failure is None or not isinstance(error, RequestTimedOut):
                    failure = error
            except ApiError as error:
                if not error.code.retriable or error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise  # `topic` has waited for it already
                failure = error
            left = deadline - self._clock.monotonic_ms()
            if left <= 0:
                break
            self._pause(min(backoff, left))
            backoff = min(backoff * 2, self._backoff_max_ms)
            if refresh is not None:
                try:
                    refresh()
                except (ConnectionFailed, ApiError) as error:
                    failure = error
        if response is not None:
            return response
        if isinstance(failure, ApiError):
            raise failure
        raise ClusterUnavailable(f"no answer to {type(message).__name__}: {failure}") from failure

    def _pause(self, duration_ms: int) -> None:
        """Wait, but not beyond `close`."""
        with self._condition:
            if not self._closed:
                self._clock.wait(self._condition, duration_ms)

    def _some_broker(self) -> BrokerAddress:
        """Known brokers and bootstrap addresses in turn, so that one that is down is tried only now and then."""
        with self._condition:
            candidates = [*self._brokers.values(), *self._bootstrap]
            broker = candidates[self._turn % len(candidates)]
            self._turn += 1
        return broker

    def _address(self, broker_id: int) -> BrokerAddress:
        found = self.brokers().get(broker_id)
        if found is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {broker_id}")
        return found

    def _controller(self) -> BrokerAddress:
        brokers = self.brokers()
        found = brokers.get(self._controller_id)
        if found is None:
            raise ConnectionFailed("the cluster has no controller at the moment")
        return found

    def _leader(self, topic: str, partition: int) -> BrokerAddress:
        known = self.topic(topic)
        found = known.partitions.get(partition)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
        leader = self.brokers().get(found.leader)
        if leader is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader at the moment")
        return leader


def parse_bootstrap(bootstrap: str | Sequence[str]) -> list[BrokerAddress]:
    """`host:port` items, comma-separated or as a list; IPv6 addresses in brackets. Raises ValueError."""
    items = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    addresses: list[BrokerAddress] = []
    for item in filter(None, map(str.strip, items)):
        host, colon, port = item.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{item!r} is not host:port")
        addresses.append(BrokerAddress(_FIRST_BOOTSTRAP_ID - len(addresses), host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("no bootstrap server is given")
    return addresses
