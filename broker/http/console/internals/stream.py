"""Samples of a broker's workings as server-sent events, to a few who look on at a time.

Nothing is sampled while nobody looks. A stream ends after a minute and the browser asks for the next one, so that who
may not look any more, or is not logged in any more, does not for longer than that.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from broker.http.console.access import SAFE_HEADERS, Problem
from broker.http.console.api.question import Question
from broker.http.console.api.rights import may_look_inside
from broker.http.messages import JSON, HttpRequest, HttpResponse

if TYPE_CHECKING:
    from broker.http.console.internals.sampling import Sampler
    from broker.http.console.room import Console
    from timer.clock import Clock

EVENT_STREAM = "text/event-stream; charset=utf-8"
MAX_LISTENERS = 8
PERIOD_S = 1.0
LIFE_MS = 60_000
RIGHTS_MS = 55_000
"""For so long a user's right to look is remembered."""
_FRESH_MS = 700
_RETRY = b"retry: 500\n\n"


class Internals:
    """Answers `GET internals`."""

    def __init__(self, console: Console, make: Callable[[], Sampler | None], clock: Clock) -> None:
        """`make` gives the sampler once the broker is far enough, None before."""
        self._console = console
        self._make = make
        self._clock = clock
        self._sampler: Sampler | None = None
        self._listeners = 0
        self._last: tuple[bytes, int] | None = None
        self._sampling = asyncio.Lock()

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Raises `Problem` for who may not look, and when too many do."""
        await self._check(request)
        if self._listeners >= MAX_LISTENERS:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", "Too many look at this broker's internals already.")
        self._sampler = self._sampler or self._make()
        if self._sampler is None:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "starting", "The broker is still starting; try again soon.")
        headers = {**SAFE_HEADERS, "x-accel-buffering": "no"}
        return HttpResponse(HTTPStatus.OK, EVENT_STREAM, self._events(self._sampler), headers)

    async def allowed(self, request: HttpRequest) -> HttpResponse:
        """Answers `GET internals-allowed`: a browser does not tell a script why it has no stream."""
        await self._check(request)
        return HttpResponse(HTTPStatus.OK, JSON, b"{}", SAFE_HEADERS)

    async def _check(self, request: HttpRequest) -> None:
        session = self._console.session_of(request)
        if session.user is None:
            return
        now = self._clock.monotonic_ms()
        if session.internals is None or now - session.internals[1] > RIGHTS_MS:
            answer = json.loads(await self._console.ask(session, may_look_inside, Question({})))
            session.internals = bool(answer["internals"]), now
        if not session.internals[0]:
            text = "A broker's internals name all topics: they need Describe on the cluster."
            raise Problem(HTTPStatus.FORBIDDEN, "internals", text)

    async def _events(self, sampler: Sampler) -> AsyncIterator[bytes]:
        self._listeners += 1
        if self._listeners == 1:
            sampler.look(True)
        try:
            yield _RETRY
            end = self._clock.monotonic_ms() + LIFE_MS
            while self._clock.monotonic_ms() < end:
                yield b"data: %b\n\n" % await self._fresh(sampler)
                await asyncio.sleep(PERIOD_S)
        finally:
            self._listeners -= 1
            if self._listeners == 0:
                sampler.look(False)
                self._last = None

    async def _fresh(self, sampler: Sampler) -> bytes:
        """The last sample, or a new one where that is old: all who look share them."""
        async with self._sampling:
            now = self._clock.monotonic_ms()
            if self._last is None or now - self._last[1] > _FRESH_MS:
                made: dict[str, Any] = await sampler.sample()
                self._last = json.dumps(made, separators=(",", ":")).encode(), now
            return self._last[0]
