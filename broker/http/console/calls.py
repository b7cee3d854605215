"""Blocking calls of the cluster's clients, run aside from the HTTP server's event loop by a few threads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from broker.http.console.access import Problem
from timer.executor import ThreadExecutor

if TYPE_CHECKING:
    from timer.worker import Workers

T = TypeVar("T")

THREADS = 4
MAX_WAITING = 64
_SHUTDOWN_MS = 2_000


class Calls:
    """At most `MAX_WAITING` calls at a time; more are refused. The threads begin with the first call."""

    def __init__(self, workers: Workers) -> None:
        self._executor = ThreadExecutor("console", THREADS, workers)
        self._waiting = 0

    async def run(self, call: Callable[[], T]) -> T:
        """What `call` returns or raises. Raises `Problem` when there are too many."""
        if self._waiting >= MAX_WAITING:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", "Too many pages ask at once; try again in a moment.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]  # None only where T is

        def work() -> None:
            result, error = None, None
            try:
                result = call()
            except Exception as failure:
                error = failure
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, result, error)

        self._waiting += 1
        try:
            self._executor.submit(work)
            return await future
        finally:
            self._waiting -= 1

    def submit(self, call: Callable[[], None]) -> None:
        """Run a call whose outcome nobody waits for."""
        self._executor.submit(call)

    def close(self) -> None:
        """Take no more, and wait a little for what runs."""
        self._executor.shutdown(_SHUTDOWN_MS)
