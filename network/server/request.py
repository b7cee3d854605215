"""A request as the network layer hands it to handlers, and how it is answered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from network.protocol.api import ApiKey
from network.protocol.header import RequestHeader, encode_response_parts
from network.server.file_range import release_message

if TYPE_CHECKING:
    from network.protocol.api import ApiSpec
    from network.server.connection_info import ConnectionInfo
    from network.server.memory_pool import MemoryPool

logger = logging.getLogger(__name__)

# Kinds of answer, as the responder sees them.
SEND: Final = 0
NO_OP: Final = 1
CLOSE_CONNECTION: Final = 2
START_THROTTLING: Final = 3

_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)


class Conversion(Protocol):
    """Work on the records of a partition that their format or codec asked for; the log has such figures."""

    @property
    def time_ns(self) -> int: ...

    @property
    def memory_bytes(self) -> int: ...


class Responder(Protocol):
    """Takes the answers to requests of some connections, from any thread; `ResponseWriter` is one."""

    now_ns: Callable[[], int]
    """The monotonic clock."""

    def respond(self, request: Request, kind: int, payload: Any) -> None:
        """SEND: the payload is the encoded parts. START_THROTTLING: milliseconds. Otherwise there is none."""
        ...

    def is_gone(self, request: Request) -> bool:
        """Whether its connection is closed, by the peer too, so that an answer would reach nobody. One that has only
        ended its half, and still reads, counts as gone: nobody can tell."""
        ...


class Request:
    """One request: its header, its undecoded body, and the times at which it passed each station.

    It is ended by exactly one of `respond` and `close_connection`, from any thread; `start_throttle` may precede it.
    `link` is the responder's: the connection that waits for the answer.

    Times are monotonic nanoseconds, 0 until the station is reached: `received_ns` (read in full), `dequeued_ns`
    (taken by a handler), `local_done_ns` (handler returned), `response_ready_ns` (the handler has answered),
    `response_dequeued_ns` (taken by the processor). `throttle_time_ms` is the quota delay, for metrics.
    """

    __slots__ = (
        "_frame",
        "_frame_offset",
        "_message",
        "_pool",
        "connection",
        "conversion",
        "dequeued_ns",
        "error_codes",
        "header",
        "link",
        "local_done_ns",
        "metric_names",
        "pooled",
        "received_ns",
        "responder",
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
        responder: Responder,
        link: Any,
        received_ns: int,
    ) -> None:
        self.header = header
        self.spec = spec
        self._frame = frame
        self._frame_offset = body_offset
        self._message: Any = None
        self.connection = connection
        self.responder = responder
        self.link = link
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
        self.metric_names: tuple[str, ...] = (spec.name,)
        """What it counts as; a handler may know better than the API's name."""
        self.error_codes: Sequence[int] = ()
        """Those of the answer, NONE included; for metrics."""
        self.conversion: tuple[int, int] | None = None
        """Nanoseconds and bytes of memory that conversions of records took, if there were any; for metrics."""

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

    def converted(self, conversion: Conversion | None) -> None:
        """Add what was done to the records of one partition."""
        if conversion is not None:
            time_ns, memory = self.conversion or (0, 0)
            self.conversion = time_ns + conversion.time_ns, memory + conversion.memory_bytes

    @property
    def is_gone(self) -> bool:
        """See `Responder.is_gone`. An answer is due all the same, but need not cost anything."""
        return self.responder.is_gone(self)

    # ---- answers

    def respond(self, response: Any | None) -> None:
        """Answer on the connection; None means that nothing goes on the wire (Produce with acks=0).

        The response is encoded on the calling thread. One that cannot be encoded closes the connection.
        """
        responder = self.responder
        self.response_ready_ns = responder.now_ns()
        if response is None:
            responder.respond(self, NO_OP, None)
            return
        self.error_codes = self.spec.error_codes(response)
        header = self.header
        if header.api_key == _API_VERSIONS and not self.spec.serves(header.api_version):
            # A version that we do not know is answered in the first one.
            header = RequestHeader(header.api_key, 0, header.correlation_id)
        try:
            parts = encode_response_parts(header, response)
        except Exception:
            logger.exception("cannot encode the response to %r; closing %s", self.header, self.connection.id)
            release_message(response)
            responder.respond(self, CLOSE_CONNECTION, None)
            return
        responder.respond(self, SEND, parts)

    def close_connection(self, unsent: Any | None = None) -> None:
        """End the connection instead of answering; the errors in `unsent`, the answer that is not sent, count."""
        if unsent is not None:
            self.error_codes = self.spec.error_codes(unsent)
        self.response_ready_ns = self.responder.now_ns()
        self.responder.respond(self, CLOSE_CONNECTION, None)

    def start_throttle(self, throttle_time_ms: int) -> None:
        """Stop reading from the connection for this time, counted from now; the response itself is not delayed."""
        self.throttle_time_ms = throttle_time_ms
        self.responder.respond(self, START_THROTTLING, throttle_time_ms)

    def __repr__(self) -> str:
        return f"Request({self.header!r}, {self.size} bytes, {self.connection.id})"
