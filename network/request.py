"""A request as the network layer hands it to handlers, and the connection it came on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from network.memory_pool import MemoryPool
    from network.protocol.api import ApiSpec
    from network.protocol.header import RequestHeader
    from network.request_channel import RequestChannel
    from network.response_writer import ResponseWriter
    from network.server_connection import ServerConnection

ANONYMOUS = "User:ANONYMOUS"
UNKNOWN_SOFTWARE = "unknown"


class ConnectionInfo:
    """What a handler may know of a connection.

    `id` is `localHost:localPort-remoteHost:remotePort-index`. `principal` has the form `Type:name`. `privileged` is
    true on the listener that brokers use among themselves (the control-plane listener where there is one). The
    ApiVersions handler sets the client software's name and version.
    """

    __slots__ = (
        "client_host",
        "id",
        "listener_name",
        "principal",
        "privileged",
        "security_protocol",
        "software_name",
        "software_version",
    )

    def __init__(
        self,
        id: str,
        listener_name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
        principal: str = ANONYMOUS,
        client_host: str = "127.0.0.1",
        privileged: bool = True,
    ) -> None:
        self.id = id
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.principal = principal
        self.client_host = client_host
        self.privileged = privileged
        self.software_name = UNKNOWN_SOFTWARE
        self.software_version = UNKNOWN_SOFTWARE

    def __repr__(self) -> str:
        return f"ConnectionInfo({self.id}, {self.listener_name}, {self.principal})"


class Request:
    """One request: its header, its undecoded body, and the times at which it passed each station.

    Times are monotonic nanoseconds, 0 until the station is reached: `received_ns` (read in full), `dequeued_ns`
    (taken by a handler), `local_done_ns` (handler returned), `response_ready_ns` (response handed to the channel),
    `response_dequeued_ns` (taken by the processor). `throttle_time_ms` is the quota delay, for metrics.
    """

    __slots__ = (
        "_frame",
        "_frame_offset",
        "_link",
        "_message",
        "_pool",
        "_writer",
        "channel",
        "connection",
        "dequeued_ns",
        "header",
        "local_done_ns",
        "pooled",
        "received_ns",
        "response_dequeued_ns",
        "response_ready_ns",
        "size",
        "spec",
        "throttle_time_ms",
    )

    def __init__(
        self,
        header: RequestHeader,
        spec: ApiSpec,
        frame: memoryview,
        body_offset: int,
        connection: ConnectionInfo,
        channel: RequestChannel,
        writer: ResponseWriter,
        link: ServerConnection,
        received_ns: int,
    ) -> None:
        self.header = header
        self.spec = spec
        self._frame = frame
        self._frame_offset = body_offset
        self._message: Any = None
        self.connection = connection
        self.channel = channel
        self._writer = writer
        self._link = link
        self._pool: MemoryPool | None = None
        self.pooled = 0
        """Bytes that the body occupies in the memory pool."""
        self.size = len(frame)
        self.received_ns = received_ns
        self.dequeued_ns = 0
        self.local_done_ns = 0
        self.response_ready_ns = 0
        self.response_dequeued_ns = 0
        self.throttle_time_ms = 0

    @property
    def body(self) -> memoryview:
        """The bytes after the header; empty once the buffer has been given back."""
        return self._frame[self._frame_offset :]

    @property
    def message(self) -> Any:
        """The decoded request, decoded at the first call. Raises `ProtocolError`."""
        message = self._message
        if message is None:
            # Bytes after the message are ignored, as Kafka does: librdkafka sends some after its Metadata request.
            message, _ = self.spec.request.decode_from(self._frame, self._frame_offset, self.header.api_version)
            self._message = message
        return message

    def hold(self, pool: MemoryPool | None, size: int) -> None:
        """The body occupies `size` bytes of `pool` until `release_buffer`."""
        self._pool, self.pooled = pool, size

    def release_buffer(self) -> None:
        """Give the body's bytes back to the memory pool. Idempotent; called when the handler has returned, so what a
        handler keeps for later must not lean on the body's bytes."""
        pooled, pool = self.pooled, self._pool
        if pooled and pool is not None:
            self.pooled = 0
            pool.release(pooled)

    def __repr__(self) -> str:
        return f"Request({self.header!r}, {self.size} bytes, {self.connection.id})"
