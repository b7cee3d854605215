"""Which requests a processor may run itself.

Handing a request to another thread costs tens of microseconds under one interpreter lock, more than a short handler
takes. So a processor runs a request itself when its API is on a named list, the list's predicate says that this
request cannot wait for anything (a cold read, an fsync, ZooKeeper, a decompression), and nobody waits in the channel.
Everything else goes through the channel to the handler pool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from network.server.request import Request

Predicate = Callable[[Request], bool]


class InlineRule:
    """The named list: API key to a predicate over the request, or None for every request of that API.

    A predicate runs on the processor for each request of its API, so it must be cheap; `request.size` is free,
    `request.message` decodes once for predicate and handler together. One that raises sends the request to the pool.
    """

    def __init__(self, apis: Mapping[int, Predicate | None]) -> None:
        self.apis: dict[int, Predicate | None] = dict(apis)

    def allows(self, request: Request) -> bool:
        try:
            predicate = self.apis[request.header.api_key]
        except KeyError:
            return False
        if predicate is None:
            return True
        try:
            return predicate(request)
        except Exception:
            return False


def at_most(size: int) -> Predicate:
    """A predicate that allows requests of up to `size` bytes."""

    def allows(request: Request) -> bool:
        return request.size <= size

    return allows


NEVER = InlineRule({})
