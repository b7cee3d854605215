"""A request whose use counts: what its answer goes through once there are quotas.

The answer is sent at once and says for how long the connection is not read afterwards (KIP-219). Requests of brokers
are exempt; those of clients that may not act as brokers count.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from broker.quotas.rates import UNLIMITED
from broker.requests.registry import MAX_INT, Call
from controller.zk import paths
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from broker.quotas.client_quota import ClientQuota
    from broker.quotas.quotas import Quotas
    from broker.requests.context import BrokerContext
    from network.server.request import Request

_PERCENT_OF_A_NANOSECOND: Final = 100 / 1e9

sanitized = lru_cache(maxsize=4096)(paths.sanitize)


class QuotaCall(Call[Any]):
    """A call of a client that may have quotas."""

    __slots__ = ("_charged", "_client", "_quotas", "_user")

    has_quotas = True

    def __init__(self, raw: Request, request: Any, broker: BrokerContext) -> None:
        super().__init__(raw, request, broker)
        connection = raw.connection
        connection.api_key = raw.header.api_key
        self._quotas: Quotas = broker.quotas
        self._user = sanitized(connection.principal.partition(":")[2])
        self._client = sanitized(raw.header.client_id or "")
        self._charged = False

    def exempt(self) -> None:
        self._charged = True

    def respond(self, response: Any | None) -> None:
        if not self._charged:
            self._charge(response)
        delay = self.throttle_time_ms
        if delay > 0 and not self.answered:
            if response is not None and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = delay
            self.start_throttle(delay)
        super().respond(response)

    def pause(self, pause_ms: int) -> None:
        """Not beside a quota's: of two the longer one counts."""
        self.throttle_time_ms = max(self.throttle_time_ms, pause_ms)

    def _charge(self, response: Any | None) -> None:
        self._charged = True
        waits = [(self.throttle_time_ms, self._quotas.mutation)]
        if self.header.api_key == ApiKey.PRODUCE:
            waits.append((self._quotas.produce.record(self._user, self._client, self.size), self._quotas.produce))
        if response is not None:
            waits.append((self._request_time(), self._quotas.request))
        self._wait_for(waits)

    def _request_time(self) -> int:
        raw = self.raw
        end = raw.local_done_ns if raw.local_done_ns > raw.dequeued_ns else raw.responder.now_ns()
        used = (end - raw.dequeued_ns) * _PERCENT_OF_A_NANOSECOND if raw.dequeued_ns else 0.0
        return self._quotas.request.record(self._user, self._client, used)

    def _wait_for(self, waits: list[tuple[int, ClientQuota]]) -> None:
        delay, quota = max(waits, key=lambda wait: wait[0])
        self.throttle_time_ms = delay
        if delay > 0:
            quota.note_throttled(self._user, self._client, delay)

    # ------------------------------------------------------------------ Fetch

    def most_bytes(self) -> int:
        """The largest answer that is not certain to be withheld."""
        largest = self._quotas.fetch.largest(self._user, self._client)
        return MAX_INT if largest == UNLIMITED else min(int(largest), MAX_INT)

    def withholds(self, size: int) -> bool:
        """Whether an answer of so many bytes is held back, because a consumer has had enough for now."""
        self._charged = True
        bytes_delay = self._quotas.fetch.record(self._user, self._client, size)
        self._wait_for([(bytes_delay, self._quotas.fetch), (self._request_time(), self._quotas.request)])
        if self.throttle_time_ms <= 0:
            return False
        self._quotas.fetch.take_back(self._user, self._client, size)
        return True

    # ------------------------------------------------------------------ changes of topics

    def charge_mutations(self, count: int, *, strict: bool) -> None:
        """Count so many partitions made or deleted. `strict`: raises THROTTLING_QUOTA_EXCEEDED, uncounted, if the
        client has overdrawn its quota before (KIP-599)."""
        mutation = self._quotas.mutation
        if strict:
            delay = mutation.delay_ms(self._user, self._client)
            if delay > 0:
                self.throttle_time_ms = max(self.throttle_time_ms, delay)
                raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            mutation.record(self._user, self._client, count)
        else:
            self.throttle_time_ms = max(self.throttle_time_ms, mutation.record(self._user, self._client, count))
