"""One kind of quota for all clients of a broker: who has used how much, and how long they have to wait
(the formulas are in `rates.py`).

Nothing is measured until a quota of the kind is set for the first time. The use of a client is kept for an hour after
the last time, and for at most `MAX_SHARES` clients: the one that was longest without a request is forgotten first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.quotas.limits import Limits, Share
from broker.quotas.rates import UNLIMITED, QuotaRate, TokenBucket, Window

if TYPE_CHECKING:
    from timer.clock import Clock
    from timer.metrics import Metrics

GROUP: Final = "kafka.server"
EXPIRY_MS: Final = 3_600_000
MAX_SHARES: Final = 10_000

Key = tuple[str | None, str | None]


class _Use:
    """What one share has used."""

    __slots__ = ("bucket", "last_ms", "rate", "throttled")

    def __init__(self, rate: QuotaRate, bucket: TokenBucket | None, throttled: QuotaRate) -> None:
        self.rate = rate
        self.bucket = bucket
        self.throttled = throttled
        self.last_ms = 0.0


class ClientQuota:
    """Thread-safe. Users and client ids are named as in ZooKeeper."""

    def __init__(
        self,
        kind: str,
        metric: str,
        window: Window,
        clock: Clock,
        metrics: Metrics,
        *,
        tokens: bool = False,
        longest_ms: int | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`kind` and `metric` as in Kafka's metrics; `tokens`: a bucket decides, not the rate; `longest_ms` bounds a
        delay."""
        self.limits = limits or Limits()
        self.is_active = limits is not None
        """From the first quota on until the broker ends, as in Kafka; from the start where others decide on limits."""
        self._kind = kind
        self._metric = metric
        self._window = window
        self._clock = clock
        self._metrics = metrics
        self._tokens = tokens
        self._longest_ms = longest_ms
        self._lock = threading.Lock()
        self._uses: dict[Key, _Use] = {}

    def set_limit(self, user: str | None, client_id: str | None, limit: float | None) -> None:
        """A quota as it is from now on; None removes it."""
        with self._lock:
            if self.limits.set(user, client_id, limit):
                self.is_active = self.is_active or limit is not None

    def record(self, user: str, client_id: str, value: float) -> int:
        """Count, and return for how many milliseconds the client has to keep silent; 0 within its quota."""
        if not self.is_active:
            return 0
        now = self._clock.monotonic_ms()
        with self._lock:
            use = self._use(user, client_id, now)
            if use is None:
                return 0
            use.rate.record(value, now)
            if use.bucket is not None:
                use.bucket.take(value, now)
            return self._delay(use, now)

    def delay_ms(self, user: str, client_id: str) -> int:
        """How long the client has to keep silent for what it has used so far."""
        if not self.is_active:
            return 0
        now = self._clock.monotonic_ms()
        with self._lock:
            use = self._use(user, client_id, now)
            return 0 if use is None else self._delay(use, now)

    def take_back(self, user: str, client_id: str, value: float) -> None:
        """What was counted has not been used after all."""
        now = self._clock.monotonic_ms()
        with self._lock:
            use = self._use(user, client_id, now)
            if use is not None:
                use.rate.record(-value, now)

    def note_throttled(self, user: str, client_id: str, delay_ms: int) -> None:
        """A client is made to wait because of this quota."""
        now = self._clock.monotonic_ms()
        with self._lock:
            use = self._use(user, client_id, now)
            if use is not None:
                use.throttled.record(delay_ms, now)

    def largest(self, user: str, client_id: str) -> float:
        """What the client may use at once without a certain delay; infinite without a quota."""
        if not self.is_active:
            return UNLIMITED
        now = self._clock.monotonic_ms()
        with self._lock:
            use = self._use(user, client_id, now)
            return UNLIMITED if use is None else use.rate.largest()

    # ------------------------------------------------------------------ under the lock

    def _delay(self, use: _Use, now: float) -> int:
        delay = use.rate.delay_ms(now) if use.bucket is None else use.bucket.delay_ms(now)
        return delay if self._longest_ms is None else min(delay, self._longest_ms)

    def _use(self, user: str, client_id: str, now: float) -> _Use | None:
        share = self.limits.of(user, client_id)
        if share is None:
            return None
        key = (share.user, share.client_id)
        use = self._uses.pop(key, None)
        if use is None:
            self._forget_old(now)
            use = self._make(share, key, now)
        elif use.rate.bound != share.limit:
            use.rate.bound = share.limit
            if use.bucket is not None:
                use.bucket.bound = share.limit
        use.last_ms = now
        self._uses[key] = use  # the last one is the one that was used last
        return use

    def _make(self, share: Share, key: Key, now: float) -> _Use:
        rate = QuotaRate(share.limit, self._window)
        bucket = TokenBucket(share.limit, self._window, now) if self._tokens else None
        use = _Use(rate, bucket, QuotaRate(UNLIMITED, self._window))

        def shown(read: Callable[[float], float]) -> Callable[[], float]:
            def value() -> float:
                with self._lock:
                    return read(self._clock.monotonic_ms())

            return value

        tags = _tags(key)
        self._metrics.gauge(GROUP, self._kind, self._metric, shown(rate.per_second), **tags)
        self._metrics.gauge(GROUP, self._kind, "throttle-time", shown(use.throttled.mean), **tags)
        if bucket is not None:
            self._metrics.gauge(GROUP, self._kind, "tokens", shown(bucket.tokens), **tags)
        return use

    def _forget_old(self, now: float) -> None:
        while self._uses:
            key, use = next(iter(self._uses.items()))
            if now - use.last_ms < EXPIRY_MS and len(self._uses) < MAX_SHARES:
                return
            del self._uses[key]
            for name in (self._metric, "throttle-time", "tokens"):
                self._metrics.remove(GROUP, self._kind, name, **_tags(key))


def _tags(key: Key) -> dict[str, str]:
    user, client_id = key
    tags = {} if user is None else {"user": user}
    return tags if client_id is None else {**tags, "client-id": client_id}
