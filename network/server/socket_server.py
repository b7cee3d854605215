"""The socket server: listeners, their acceptors and processors, and the two planes' channels and handlers."""

from __future__ import annotations

import logging
import math
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from network.server.acceptor import Acceptor, bind
from network.server.connection_quotas import ConnectionQuotas, QuotaWindow
from network.server.handler_pool import Handler, HandlerPool
from network.server.inline import NEVER, InlineRule
from network.server.memory_pool import MemoryPool
from network.server.processor import Processor
from network.server.request_channel import RequestChannel
from network.server.request_metrics import RequestLog, RequestMetrics, no_request_log
from network.server.server_config import CONTROL_PLANE_QUEUE, ListenerConfig, SocketServerConfig

if TYPE_CHECKING:
    from timer.clock import Clock
    from timer.metrics import Metrics

logger = logging.getLogger(__name__)

GROUP = "kafka.network"
DATA_PLANE = "data-plane"
CONTROL_PLANE = "control-plane"
_SOCKET_METRICS = "socket-server-metrics"
_DRAIN_S = 1.0
_COLD_READ_THREADS = 2
_PROCESSOR_GAUGES: tuple[tuple[str, str, str, Callable[[Processor], float]], ...] = (
    ("Processor", "IdlePercent", "networkProcessor", Processor.idle_ratio),
    ("RequestChannel", "ResponseQueueSize", "processor", lambda processor: processor.response_queue_size),
)
# Attributes of `kafka.server:type=socket-server-metrics,listener=...,networkProcessor=...`.
_SOCKET_GAUGES: dict[str, Callable[[Processor], float]] = {
    "connection-count": lambda processor: processor.connection_count,
    "connection-creation-total": lambda processor: processor.connections_made,
    "connection-close-total": lambda processor: processor.connections_made - processor.connection_count,
    "request-total": lambda processor: processor.requests,
    "incoming-byte-total": lambda processor: processor.request_bytes,
    "expired-connections-killed-count": lambda processor: processor.expired_sessions,
    "successful-authentication-total": lambda processor: processor.authentications,
    "failed-authentication-total": lambda processor: processor.failed_authentications,
    "successful-reauthentication-total": lambda processor: processor.reauthentications,
    "failed-reauthentication-total": lambda processor: processor.failed_reauthentications,
}


@dataclass(slots=True)
class _Plane:
    """A request channel, who serves it, and the processors that feed it."""

    name: str
    channel: RequestChannel
    handlers: HandlerPool
    processors: list[Processor] = field(default_factory=list)
    acceptors: list[Acceptor] = field(default_factory=list)


class SocketServer:
    """Serves `handler` on every listener of `config`.

    Life: construct (listeners with port 0 are bound, so that their real port can be advertised), `start`,
    `stop_accepting`, `shutdown`. `inline` names the requests that a processor may run itself; `request_log` is told
    of finished ones.
    """

    def __init__(
        self,
        config: SocketServerConfig,
        handler: Handler,
        clock: Clock,
        metrics: Metrics,
        *,
        inline: InlineRule = NEVER,
        request_log: RequestLog = no_request_log,
    ) -> None:
        names = [listener.name for listener in config.listeners]
        if not names or len(set(names)) != len(names):
            raise ValueError("a socket server needs listeners, each with its own name")
        if config.control_plane_listener_name is not None and config.control_plane_listener_name not in names:
            raise ValueError(f"the control plane listener {config.control_plane_listener_name} is not a listener")
        self._config = config
        self._handler = handler
        self._clock = clock
        self._metrics = metrics
        self._inline = inline
        self._request_log = request_log
        self._next_processor = 0
        self._started = False
        self._stopped_accepting = False
        self.quotas = ConnectionQuotas(
            clock,
            listeners={
                each.name: (each.max_connections, each.max_connection_creation_rate) for each in config.listeners
            },
            protected_listener=config.inter_broker_listener_name,
            max_connections=config.max_connections,
            max_connections_per_ip=config.max_connections_per_ip,
            max_connections_per_ip_overrides=config.max_connections_per_ip_overrides,
            max_connection_creation_rate=config.max_connection_creation_rate,
            window=QuotaWindow(config.quota_window_num, config.quota_window_size_seconds * 1000),
        )
        self.memory_pool = MemoryPool(config.queued_max_request_bytes) if config.queued_max_request_bytes > 0 else None
        self._cold_reads = ThreadPoolExecutor(_COLD_READ_THREADS, "data-plane-kafka-cold-read")
        self._data = self._make_plane(DATA_PLANE, config.queued_max_requests, config.num_io_threads)
        self._control = (
            self._make_plane(CONTROL_PLANE, CONTROL_PLANE_QUEUE, 1) if config.control_plane_listener_name else None
        )
        self._sockets: dict[str, socket.socket] = {}
        try:
            for listener in config.listeners:
                if listener.port == 0:
                    self._bind(listener)
        except BaseException:
            self._close_sockets()
            raise
        self._register_metrics()

    @property
    def request_channel(self) -> RequestChannel:
        """The data plane's channel."""
        return self._data.channel

    @property
    def handler_pool(self) -> HandlerPool:
        """The data plane's handlers."""
        return self._data.handlers

    def processors(self) -> list[Processor]:
        """All of them, for those who look on."""
        return [processor for plane in self._planes() for processor in plane.processors]

    def bound_port(self, listener: str) -> int:
        """The port that a listener has, or, not bound yet, is configured to have. Raises KeyError."""
        sock = self._sockets.get(listener)
        if sock is not None:
            return int(sock.getsockname()[1])
        return {each.name: each.port for each in self._config.listeners}[listener]

    def connection_count(self) -> int:
        return self.quotas.total

    def start(self) -> None:
        """Bind what is not bound, and serve. Raises OSError, with nothing left running, when a port cannot be had."""
        try:
            for listener in self._config.listeners:
                if listener.name not in self._sockets:
                    self._bind(listener)
        except OSError:
            self._close_sockets()
            raise
        self._started = True
        for listener in sorted(self._config.listeners, key=lambda each: not self._is_control(each)):
            self._add_listener(listener)
        for plane in self._planes():
            plane.handlers.start()
            for processor in plane.processors:
                processor.start()
        for plane in self._planes():
            for acceptor in plane.acceptors:
                acceptor.start()

    def resize_network_threads(self, count: int, listener: str | None = None) -> None:
        """Change the number of processors of a data-plane listener, or of all that have no number of their own.

        Removed ones are the last; their connections are closed. Raises ValueError for less than one.
        """
        if count < 1:
            raise ValueError("a listener needs a network thread")
        for acceptor in self._data.acceptors:
            own = acceptor.listener.num_network_threads is not None
            if acceptor.listener.name == listener or (listener is None and not own):
                self._resize(acceptor, count)

    def add_listener(self, listener: ListenerConfig) -> None:
        """Begin to serve one more listener, on the data plane. Raises OSError when its port cannot be had."""
        self._bind(listener)
        self._config = replace(self._config, listeners=[*self._config.listeners, listener])
        self.quotas.add_listener(listener.name, listener.max_connections, listener.max_connection_creation_rate)
        self._add_listener(listener)
        acceptor = self._data.acceptors[-1]
        for processor in acceptor.processors:
            processor.start()
        acceptor.start()

    def remove_listener(self, name: str) -> None:
        """Close a listener of the data plane and its connections. Requests of theirs that are being handled run on, and
        their answers are dropped. Raises KeyError."""
        found = [each for each in self._data.acceptors if each.listener.name == name]
        if not found:
            raise KeyError(name)
        acceptor = found[0]
        acceptor.stop()
        self._data.acceptors.remove(acceptor)
        for processor in acceptor.processors:
            self._data.processors.remove(processor)
            processor.shutdown()
            self._remove_gauges(processor)
        self._sockets.pop(name).close()
        self._config = replace(self._config, listeners=[each for each in self._config.listeners if each.name != name])

    @property
    def listener_names(self) -> list[str]:
        return [each.name for each in self._config.listeners]

    def stop_accepting(self) -> None:
        """Accept no more connections and read no more requests; what has been read is still answered."""
        if self._stopped_accepting:
            return
        self._stopped_accepting = True
        for plane in self._planes():
            for acceptor in plane.acceptors:
                acceptor.stop()
            for processor in plane.processors:
                processor.drain()

    def shutdown(self) -> None:
        """Give requests in flight a second to be answered, then close every connection and end every thread.

        A request that waits in a purgatory is not waited for: its response is dropped when it comes.
        """
        if not self._started:
            self._close_sockets()
            self._cold_reads.shutdown()
            return
        self.stop_accepting()
        deadline_ms = self._clock.monotonic_ms() + int(_DRAIN_S * 1000)
        for plane in self._planes():
            for processor in plane.processors:
                processor.wait_drained(max(0, deadline_ms - self._clock.monotonic_ms()) / 1000)
        for plane in self._planes():
            plane.channel.close(0)  # lets go of a processor that waits for room
            dropped = plane.channel.clear()
            if dropped:
                logger.warning("%d requests were still waiting for a handler at shutdown", dropped)
            for processor in plane.processors:
                processor.shutdown()
            if not plane.handlers.shutdown():
                logger.warning("a %s handler is still busy", plane.name)
        self._cold_reads.shutdown()
        self._close_sockets()

    def _resize(self, acceptor: Acceptor, count: int) -> None:
        processors = acceptor.processors
        while len(processors) < count:
            processor = self._make_processor(self._data, acceptor.listener)
            self._data.processors.append(processor)
            processor.start()
            processors.append(processor)
        while len(processors) > count:
            processor = processors.pop()
            self._data.processors.remove(processor)
            processor.shutdown()
            self._remove_gauges(processor)

    # -- parts ---------------------------------------------------------------------------------------------------

    def _planes(self) -> list[_Plane]:
        return [self._data] if self._control is None else [self._control, self._data]

    def _is_control(self, listener: ListenerConfig) -> bool:
        return listener.name == self._config.control_plane_listener_name

    def _make_plane(self, name: str, capacity: int, threads: int) -> _Plane:
        channel = RequestChannel(capacity, self._clock)
        meter = (
            self._metrics.meter("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent")
            if name == DATA_PLANE
            else None
        )
        return _Plane(name, channel, HandlerPool(channel, self._handler, threads, plane=name, idle_meter=meter))

    def _bind(self, listener: ListenerConfig) -> None:
        config = self._config
        self._sockets[listener.name] = bind(
            listener, config.socket_listen_backlog_size, config.socket_receive_buffer_bytes
        )

    def _close_sockets(self) -> None:
        for sock in self._sockets.values():
            sock.close()
        self._sockets.clear()

    def _add_listener(self, listener: ListenerConfig) -> None:
        control = self._is_control(listener)
        plane = self._control if control and self._control is not None else self._data
        count = 1 if control else listener.num_network_threads or self._config.num_network_threads
        processors = [self._make_processor(plane, listener) for _ in range(count)]
        plane.processors.extend(processors)
        plane.acceptors.append(
            Acceptor(
                listener,
                self._sockets[listener.name],
                processors,
                self.quotas,
                self._clock,
                plane=plane.name,
                send_buffer_bytes=self._config.socket_send_buffer_bytes,
                blocked_meter=self._metrics.meter(GROUP, "Acceptor", "AcceptorBlockedPercent", listener=listener.name),
                on_over_limit=self._close_excess,
            )
        )

    def _make_processor(self, plane: _Plane, listener: ListenerConfig) -> Processor:
        config = self._config
        number = self._next_processor
        self._next_processor += 1
        thread = f"{plane.name}-kafka-network-thread-{config.broker_id}-{listener.name}"
        processor = Processor(
            number,
            listener,
            plane.channel,
            self._handler,
            name=f"{thread}-{listener.security_protocol}-{number}",
            inline=self._inline if plane is self._data else NEVER,
            quotas=self.quotas,
            memory_pool=self.memory_pool,
            request_metrics=RequestMetrics(self._metrics, self._request_log),
            cold_reads=self._cold_reads,
            clock=self._clock,
            privileged=listener.name == config.privileged_listener_name,
            max_request_bytes=config.socket_request_max_bytes,
            max_idle_ms=config.connections_max_idle_ms,
            max_login_ms=config.sasl_login_timeout_ms,
        )
        self._add_gauges(processor)
        return processor

    def _add_gauges(self, processor: Processor) -> None:
        number = str(processor.id)
        for type_, gauge, tag, value in _PROCESSOR_GAUGES:
            self._metrics.gauge(GROUP, type_, gauge, partial(value, processor), **{tag: number})
        for gauge, value in _SOCKET_GAUGES.items():
            tags = {"listener": processor.listener.name, "networkProcessor": number}
            self._metrics.gauge("kafka.server", _SOCKET_METRICS, gauge, partial(value, processor), **tags)

    def _remove_gauges(self, processor: Processor) -> None:
        number = str(processor.id)
        for type_, gauge, tag, _ in _PROCESSOR_GAUGES:
            self._metrics.remove(GROUP, type_, gauge, **{tag: number})
        for gauge in _SOCKET_GAUGES:
            tags = {"listener": processor.listener.name, "networkProcessor": number}
            self._metrics.remove("kafka.server", _SOCKET_METRICS, gauge, **tags)

    def _close_excess(self) -> None:
        """Have one connection closed of a listener that is not protected."""
        for plane in self._planes():
            for processor in plane.processors:
                if not self.quotas.is_protected(processor.listener.name):
                    processor.close_excess()

    def _register_metrics(self) -> None:
        gauge = self._metrics.gauge
        for plane in self._planes():
            prefix = "" if plane is self._data else "ControlPlane"
            gauge(GROUP, "RequestChannel", f"{prefix}RequestQueueSize", _size_of(plane.channel))
            gauge(GROUP, "RequestChannel", f"{prefix}ResponseQueueSize", _responses_of(plane))
        for prefix, owner in (("", self._data), ("ControlPlane", self._control)):
            gauge(GROUP, "SocketServer", f"{prefix}NetworkProcessorAvgIdlePercent", _idleness_of(owner))
            gauge(GROUP, "SocketServer", f"{prefix}ExpiredConnectionsKilledCount", _expired_of(owner))
        pool = self.memory_pool
        gauge(GROUP, "SocketServer", "MemoryPoolAvailable", lambda: pool.available if pool else 2**63 - 1)
        gauge(GROUP, "SocketServer", "MemoryPoolUsed", lambda: pool.used if pool else 0)


def _size_of(channel: RequestChannel) -> Callable[[], float]:
    return lambda: len(channel)


def _responses_of(plane: _Plane) -> Callable[[], float]:
    return lambda: sum(processor.response_queue_size for processor in plane.processors)


def _expired_of(plane: _Plane | None) -> Callable[[], float]:
    return lambda: sum(processor.expired_sessions for processor in plane.processors) if plane else 0


def _idleness_of(plane: _Plane | None) -> Callable[[], float]:
    def mean() -> float:
        if plane is None:
            return math.nan
        ratios = [processor.idle_ratio() for processor in plane.processors]
        return sum(ratios) / len(ratios) if ratios else 1.0

    return mean
