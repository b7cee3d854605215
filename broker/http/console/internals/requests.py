"""Where the time of requests goes, added up between two samples, while somebody looks.

It stands where the request log stands: a processor asks once a second whether anybody is to be told of each finished
request, and tells nobody as long as nobody looks on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, Any

from network.server.request_metrics import parts_ns

if TYPE_CHECKING:
    from network.server.request import Request
    from network.server.request_metrics import RequestLog

PARTS = ("queue", "local", "remote", "throttle", "response_queue", "send")
SLOWEST = 8
"""Single requests that are kept of each sample."""
_MAX_CLIENT_ID = 120
_MS = 1_000_000


class RequestWatch:
    """Thread-safe. `current` is what the socket server asks."""

    def __init__(self, log: RequestLog) -> None:
        """`log` is the request log, which goes on as it is."""
        self._request_log = log
        self._lock = threading.Lock()
        self._looks = False
        self._by_api: dict[str, list[int]] = {}
        self._slowest: list[tuple[int, int, dict[str, Any]]] = []
        self._number = 0

    def look(self, on: bool) -> None:
        """Begin to add up, or stop."""
        with self._lock:
            self._looks = on
            self._by_api, self._slowest = {}, []

    def current(self) -> Callable[[Request, int], None] | None:
        """Who is to be told of finished requests now."""
        log = self._request_log()
        if not self._looks:
            return log
        if log is None:
            return self.note

        def both(request: Request, done_ns: int) -> None:
            log(request, done_ns)
            self.note(request, done_ns)

        return both

    def note(self, request: Request, done_ns: int) -> None:
        """A request is out, at `done_ns`."""
        if not self._looks:
            return
        parts = parts_ns(request, done_ns)
        total = done_ns - request.received_ns
        name = request.spec.name
        with self._lock:
            sums = self._by_api.get(name)
            if sums is None:
                sums = self._by_api[name] = [0, 0, *([0] * len(PARTS))]
            sums[0] += 1
            sums[1] = max(sums[1], total)
            for place, part in enumerate(parts, 2):
                sums[place] += part
            self._number += 1
            if len(self._slowest) < SLOWEST:
                heappush(self._slowest, (total, self._number, _one(request, parts)))
            elif total > self._slowest[0][0]:
                heappushpop(self._slowest, (total, self._number, _one(request, parts)))

    def take(self) -> dict[str, Any]:
        """What has been added up since the last call; times are ms, of an API the sums of each part."""
        with self._lock:
            by_api, self._by_api = self._by_api, {}
            slowest, self._slowest = self._slowest, []
        return {
            "apis": {
                name: {"count": count, "max": longest / _MS, "parts": [part / _MS for part in parts]}
                for name, (count, longest, *parts) in sorted(by_api.items())
            },
            "slowest": [one for _, _, one in sorted(slowest, reverse=True)],
        }


def _one(request: Request, parts: tuple[int, ...]) -> dict[str, Any]:
    return {
        "api": request.spec.name,
        "version": request.header.api_version,
        "client": (request.header.client_id or "")[:_MAX_CLIENT_ID],
        "parts": [part / _MS for part in parts],
    }
