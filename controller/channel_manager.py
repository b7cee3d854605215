"""A queue and a thread for each broker: requests go out in order, one at a time, again and again until answered.

The queue of a broker needs no bound of its own: a broker that does not answer loses its registration in ZooKeeper,
and with it its queue.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from controller.broker_channels import ResponseCallback
from controller.zk.payloads import BrokerInfo
from network.protocol.errors import ProtocolError
from network.protocol.message import Request, Response
from timer.metrics import NULL_METRICS
from timer.news import News, of_error
from timer.worker import Worker, Workers

if TYPE_CHECKING:
    from timer.clock import Clock
    from timer.metrics import Metrics

logger = logging.getLogger(__name__)

RETRY_BACKOFF_MS = 100


class BrokerConnection(Protocol):
    """A connection to one broker. Every method but `close` is called by one thread."""

    def call(self, message: Request, version: int) -> Response:
        """Send and wait for the response; raises `OSError` or `ProtocolError`."""
        ...

    def close(self) -> None:
        """May be called from another thread, and then wakes `call`."""
        ...


# Opens a connection to a broker; raises OSError.
Connect = Callable[[BrokerInfo], BrokerConnection]


class BrokerChannel:
    """The ordered way to one broker. `step()` delivers the head of the queue."""

    def __init__(
        self,
        controller_id: int,
        broker: BrokerInfo,
        connect: Connect,
        clock: Clock,
        metrics: Metrics,
        workers: Workers | None = None,
    ) -> None:
        self.broker = broker
        self._connect = connect
        self._clock = clock
        self._queue: deque[tuple[Request, int, ResponseCallback | None, int]] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._connection: BrokerConnection | None = None
        self._failures = News(clock)
        name = f"Controller-{controller_id}-to-broker-{broker.id}-send-thread"
        self._worker = Worker(name, self.step, clock, interrupt=self._interrupt, workers=workers)
        self._metrics = metrics
        self._tags = {"broker-id": str(broker.id)}
        metrics.gauge("kafka.controller", "ControllerChannelManager", "QueueSize", self.__len__, **self._tags)
        self._queue_time = metrics.histogram(
            "kafka.controller", "ControllerChannelManager", "RequestRateAndQueueTimeMs", **self._tags
        )

    def __len__(self) -> int:
        return len(self._queue)

    def start(self) -> None:
        self._worker.start()

    def put(self, request: Request, version: int, callback: ResponseCallback | None) -> None:
        with self._lock:
            if not self._closed:
                self._queue.append((request, version, callback, self._clock.monotonic_ns()))
        self._worker.wake()

    def close(self) -> None:
        """Drop the queue and let the thread end; a call in progress is woken. Does not wait: it may be connecting."""
        with self._lock:
            self._closed = True
            self._queue.clear()
        self._worker.request_stop()
        self._metrics.remove("kafka.controller", "ControllerChannelManager", "QueueSize", **self._tags)
        self._metrics.remove("kafka.controller", "ControllerChannelManager", "RequestRateAndQueueTimeMs", **self._tags)

    def step(self) -> float | None:
        """Try to deliver the oldest request once; returns when to go on, None if there is nothing to deliver."""
        with self._lock:
            if not self._queue:
                return None
            request, version, callback, queued_ns = self._queue[0]
        try:
            response = self._connected().call(request, version)
        except (OSError, ProtocolError) as error:
            self._disconnect()
            if not self._closed and self._failures.is_new(self.broker.id, of_error(error)):
                logger.warning(
                    "Controller's connection to broker %d failed, the request is sent again: %s", self.broker.id, error
                )
            return RETRY_BACKOFF_MS
        except Exception:
            self._disconnect()
            raise
        self._failures.is_over(self.broker.id)
        self._queue_time.update((self._clock.monotonic_ns() - queued_ns) / 1e6)
        with self._lock:
            if self._closed:
                return None
            self._queue.popleft()
        if callback is not None:
            callback(response)
        return 0

    def _connected(self) -> BrokerConnection:
        if self._connection is None:
            connection = self._connect(self.broker)
            with self._lock:
                self._connection = connection
            if self._closed:
                raise OSError("the channel was closed")
        return self._connection

    def _disconnect(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _interrupt(self) -> None:
        """Wake a call in progress; its step drops the connection then."""
        connection = self._connection
        if connection is not None:
            connection.close()


class ChannelManager:
    """`BrokerChannels` over threads and connections."""

    def __init__(
        self,
        controller_id: int,
        connect: Connect,
        clock: Clock,
        metrics: Metrics = NULL_METRICS,
        workers: Workers | None = None,
    ) -> None:
        self._controller_id = controller_id
        self._connect = connect
        self._clock = clock
        self._metrics = metrics
        self._workers = workers
        self._lock = threading.Lock()
        self._channels: dict[int, BrokerChannel] = {}
        metrics.gauge(
            "kafka.controller",
            "ControllerChannelManager",
            "TotalQueueSize",
            lambda: sum(len(channel) for channel in list(self._channels.values())),
        )

    def start(self, brokers: Iterable[BrokerInfo]) -> None:
        for broker in brokers:
            self.add_broker(broker)

    def add_broker(self, broker: BrokerInfo) -> None:
        with self._lock:
            if broker.id in self._channels:
                return
            channel = BrokerChannel(
                self._controller_id, broker, self._connect, self._clock, self._metrics, self._workers
            )
            self._channels[broker.id] = channel
        channel.start()

    def remove_broker(self, broker_id: int) -> None:
        with self._lock:
            channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def send(self, broker_id: int, request: Request, version: int, callback: ResponseCallback | None) -> None:
        channel = self._channels.get(broker_id)
        if channel is None:
            logger.warning("Not sending %s to broker %d: it has no channel", type(request).__name__, broker_id)
            return
        channel.put(request, version, callback)

    def shutdown(self) -> None:
        with self._lock:
            channels = list(self._channels.values())
            self._channels.clear()
        for channel in channels:
            channel.close()
