"""A connection for asyncio, for benchmarks with more members than threads."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any

from network.client.connection import MAX_RESPONSE_BYTES, ConnectionFailed, CorrelationIds, RequestTimedOut
from network.protocol.errors import ProtocolError
from network.protocol.header import RequestHeader, decode_response, encode_request_parts
from network.protocol.message import Request


class AsyncConnection:
    """A connection for asyncio. Any number of calls may be in flight; each gets its own answer.

    Make it with `await AsyncConnection.open(...)`.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        host: str,
        port: int,
        client_id: str,
        socket_timeout_ms: int,
        correlation_ids: CorrelationIds | None,
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self._reader = reader
        self._writer = writer
        self._socket_timeout_ms = socket_timeout_ms
        self._ids = correlation_ids or CorrelationIds()
        self._in_flight: deque[tuple[RequestHeader, asyncio.Future[Any]]] = deque()
        self._failure: BaseException | None = None
        self._receiver = asyncio.ensure_future(self._receive())

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        client_id: str,
        connect_timeout_ms: int = 10_000,
        socket_timeout_ms: int = 30_000,
        *,
        correlation_ids: CorrelationIds | None = None,
        ssl: Any = None,
    ) -> AsyncConnection:
        """Connect. Raises `ConnectionFailed`."""
        try:
            async with asyncio.timeout(connect_timeout_ms / 1000):
                reader, writer = await asyncio.open_connection(host, port, ssl=ssl, limit=1 << 20)
        except OSError as error:  # TimeoutError is one
            raise ConnectionFailed(f"cannot connect to {host}:{port}: {error}") from error
        return cls(reader, writer, host, port, client_id, socket_timeout_ms, correlation_ids)

    @property
    def closed(self) -> bool:
        return self._failure is not None

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def send_request(self, message: Request, version: int) -> asyncio.Future[Any]:
        """Queue a request for sending; the future has its answer. Raises `ConnectionFailed` when closed."""
        if self._failure is not None:
            raise ConnectionFailed(f"connection to {self.host}:{self.port} is closed") from self._failure
        header = RequestHeader(message.API_KEY, version, self._ids.take(), self.client_id)
        parts = encode_request_parts(header, message)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._in_flight.append((header, answer))
        self._writer.writelines(parts)  # type: ignore[arg-type]
        return answer

    async def call(self, message: Request, version: int, timeout_ms: int | None = None) -> Any:
        """Send one request and return its answer. Raises `ConnectionFailed`; a time-out closes the connection."""
        limit = self._socket_timeout_ms if timeout_ms is None else timeout_ms
        answer = self.send_request(message, version)
        try:
            async with asyncio.timeout(limit / 1000):
                await self._writer.drain()
                return await answer
        except TimeoutError as error:
            timed_out = RequestTimedOut(f"{self.host}:{self.port} did not answer in time")
            self._end(timed_out)
            raise timed_out from error
        except ConnectionFailed:
            raise
        except OSError as error:
            self._end(error)
            raise ConnectionFailed(f"{self.host}:{self.port}: {error}") from error

    async def close(self) -> None:
        self._end(ConnectionFailed(f"connection to {self.host}:{self.port} was closed"))
        with contextlib.suppress(Exception):
            await self._writer.wait_closed()

    async def _receive(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(4)
                size = int.from_bytes(head, "big", signed=True)
                if not 4 <= size <= MAX_RESPONSE_BYTES or not self._in_flight:
                    raise ProtocolError(f"{self.host}:{self.port} sent {size} bytes that nobody asked for")
                frame = memoryview(await self._reader.readexactly(size))
                header, answer = self._in_flight.popleft()
                try:
                    response = decode_response(header, frame)
                except ProtocolError as error:
                    if not answer.done():
                        answer.set_exception(error)
                    raise
                if not answer.done():
                    answer.set_result(response)
        except asyncio.CancelledError:
            raise
        except (OSError, EOFError, ProtocolError) as error:
            self._end(error)

    def _end(self, cause: BaseException) -> None:
        if self._failure is not None:
            return
        self._failure = cause
        self._receiver.cancel()
        self._writer.close()
        failed = cause if isinstance(cause, ConnectionFailed) else None
        while self._in_flight:
            _, answer = self._in_flight.popleft()
            if not answer.done():
                answer.set_exception(failed or ConnectionFailed(f"{self.host}:{self.port}: {cause}"))
                answer.exception()  # retrieved: nobody may be waiting for it
