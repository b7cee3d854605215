"""A small HTTP/1.1 server: one thread with an event loop. `GET` and `HEAD`, and `POST` where a room takes it.

The protocol itself is h11's. What a client can take from the broker is bounded: connections, bytes of a request's
head and body, and the time for a request, for an idle connection and for taking an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus

import h11

from broker.http.messages import Handler, HttpRequest, HttpResponse, text_response

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 64
MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 256 * 1024
REQUEST_TIMEOUT_S = 10.0
IDLE_TIMEOUT_S = 75.0
SEND_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 5.0
_BACKLOG = 64
_READ_BYTES = 16 * 1024
_SAFE_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


class _BodyTooLarge(Exception):
    """A request's body has more than `MAX_BODY_BYTES`."""


class HttpServer:
    """Serves `routes`, by exact path, on one address; `room` has every path that is no route, and is the only one to
    be sent a `POST`.

    Life: construct, `start`, `shutdown`. Handlers run on the server's own event loop and must not block it.
    """

    def __init__(self, host: str, port: int, routes: Mapping[str, Handler], room: Handler | None = None) -> None:
        self._host = host
        self._wanted_port = port
        self._routes = routes
        self._room = room
        self._connections: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._serving = threading.Event()
        """Set when it serves, or has failed to."""
        self._failure: OSError | None = None

    @property
    def port(self) -> int:
        """The port that it has; the wanted one before `start`."""
        return self._wanted_port if self._socket is None else int(self._socket.getsockname()[1])

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    def start(self) -> None:
        """Bind and serve. Raises `OSError` when the address cannot be had."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        self._socket = socket.create_server((self._host, self._wanted_port), family=family, backlog=_BACKLOG)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()
        self._serving.wait()
        if self._failure is not None:
            raise self._failure

    def shutdown(self) -> None:
        """Close every connection and end the thread; idempotent."""
        loop, stop, thread = self._loop, self._stop, self._thread
        if loop is None or stop is None or thread is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(stop.set)
        thread.join(_STOP_TIMEOUT_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._failure = error
            logger.error("the HTTP server has ended: %s", error)
        finally:
            self._serving.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._accept, sock=self._socket, limit=_READ_BYTES)
        self._serving.set()
        try:
            await self._stop.wait()
        finally:
            server.close()
            for task in list(self._connections):
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        broke_off = True
        try:
            await _Connection(reader, writer, self._routes, self._room).run()
            broke_off = False
        except (OSError, TimeoutError, h11.ProtocolError) as error:
            logger.debug("connection from %s ended: %s", writer.get_extra_info("peername"), error)
        except asyncio.CancelledError:
            pass  # the server stops; nobody awaits this task's outcome
        except Exception:
            logger.exception("an answer broke off")
        finally:
            self._connections.discard(task)
            writer.transport.abort() if broke_off else writer.close()


class _Connection:
    """One client: requests are answered one after the other, until one of both closes."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        routes: Mapping[str, Handler],
        room: Handler | None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._routes = routes
        self._room = room
        self._body = bytearray()
        peer = writer.get_extra_info("peername")
        self._peer = str(peer[0]) if peer else ""
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def run(self) -> None:
        timeout = REQUEST_TIMEOUT_S
        while True:
            try:
                async with asyncio.timeout(timeout):
                    request = await self._next_request()
            except h11.RemoteProtocolError as error:
                if self._http.our_state is h11.IDLE:
                    status = HTTPStatus(error.error_status_hint)
                    await self._send(text_response(status, str(error)), with_body=True)
                return
            except _BodyTooLarge:
                text = f"a body has at most {MAX_BODY_BYTES} bytes"
                refused = text_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, connection="close")
                await self._send(refused, with_body=True)
                return
            if request is None:
                return
            await self._send(await self._answer(request), with_body=request.method != b"HEAD")
            if self._http.our_state is h11.MUST_CLOSE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()
            timeout = IDLE_TIMEOUT_S

    async def _next_request(self) -> h11.Request | None:
        """The next request once all of it has come, its body in `_body`; None at the end."""
        request: h11.Request | None = None
        self._body.clear()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_READ_BYTES))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > MAX_BODY_BYTES:
                    raise _BodyTooLarge
            elif isinstance(event, h11.EndOfMessage):
                return request
            elif isinstance(event, h11.ConnectionClosed):
                return None

    async def _answer(self, request: h11.Request) -> HttpResponse:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
        method = request.method.decode("latin-1")
        try:
            asked = HttpRequest.of(request.target.decode("latin-1"), headers, method, bytes(self._body), self._peer)
        except ValueError as error:
            return text_response(HTTPStatus.BAD_REQUEST, f"the address cannot be read: {error}")
        handler = self._routes.get(asked.path)
        if method not in ("GET", "HEAD") and (method != "POST" or handler is not None or self._room is None):
            return text_response(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are served", allow="GET, HEAD")
        handler = handler or self._room
        if handler is None:
            served = " ".join(sorted(self._routes))
            return text_response(HTTPStatus.NOT_FOUND, f"nothing is served at this path, but at: {served}")
        try:
            return await handler(asked)
        except Exception:
            logger.exception("the answer to %s %s failed", method, asked.path)
            return text_response(HTTPStatus.INTERNAL_SERVER_ERROR, "the answer failed; the broker's log has the cause")

    async def _send(self, response: HttpResponse, *, with_body: bool) -> None:
        body = response.body
        headers = {**_SAFE_HEADERS, "content-type": response.content_type, **response.headers}
        if isinstance(body, bytes):
            headers["content-length"] = str(len(body))
        head = h11.Response(
            status_code=response.status, reason=response.status.phrase.encode(), headers=list(headers.items())
        )
        if isinstance(body, bytes):
            await self._write(head, *([h11.Data(data=body)] if with_body else []), h11.EndOfMessage())
            return
        await self._write(head)
        try:
            if with_body:
                async for piece in body:
                    await self._write(h11.Data(data=piece))
        finally:
            if isinstance(body, AsyncGenerator):  # at once, whoever went away: it may hold a place among a few
                await body.aclose()
        await self._write(h11.EndOfMessage())

    async def _write(self, *events: h11.Event) -> None:
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await self._writer.drain()
