"""Limits on connections: total, per listener, per address, and the rates at which they may be made."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timer.clock import Clock

UNLIMITED = 2147483647
_WAIT_STEP_MS = 500
_TRACKED_ADDRESSES = 10_000


class TooManyConnections(Exception):
    """One connection more than the address may have; the socket is closed at once."""


class ConnectionRateExceeded(Exception):
    """The address connects too often; the socket is kept unread for `throttle_ms`, then closed."""

    def __init__(self, throttle_ms: int) -> None:
        super().__init__(f"connection rate exceeded, {throttle_ms} ms")
        self.throttle_ms = throttle_ms


@dataclass(frozen=True, slots=True)
class QuotaWindow:
    """`quota.window.num` samples of `quota.window.size.seconds`."""

    samples: int = 11
    size_ms: int = 1000


class ConnectionRate:
    """Connections a second over the quota window, against a bound."""

    def __init__(self, bound: float, window: QuotaWindow) -> None:
        self.bound = bound
        self._window = window
        self._samples: deque[list[int]] = deque()  # [start ms, count], oldest first

    def record(self, now_ms: int, count: int = 1) -> None:
        self._expire(now_ms)
        size = self._window.size_ms
        if not self._samples or now_ms - self._samples[-1][0] >= size:
            self._samples.append([now_ms, 0])
        self._samples[-1][1] += count

    def unrecord(self) -> None:
        """Take the last recorded connection back."""
        if self._samples:
            self._samples[-1][1] -= 1

    def delay_ms(self, now_ms: int, extra: int = 0) -> int:
        """How long to wait until the rate, with `extra` connections more, is within the bound; 0 when it is."""
        if self.bound >= UNLIMITED:
            return 0
        self._expire(now_ms)
        total = sum(count for _, count in self._samples) + extra
        # A young counter is measured as if its earlier samples had been empty.
        size = self._window.size_ms
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0
        elapsed_ms += max(0, self._window.samples - 1 - elapsed_ms // size) * size
        if total * 1000 <= self.bound * elapsed_ms:
            return 0
        if self.bound <= 0:
            return self._window.size_ms
        allowed_after_ms = total * 1000 / self.bound
        return min(math.ceil(allowed_after_ms - elapsed_ms), self._window.size_ms)

    @property
    def idle(self) -> bool:
        return not self._samples

    def _expire(self, now_ms: int) -> None:
        limit = now_ms - self._window.samples * self._window.size_ms
        while self._samples and self._samples[0][0] <= limit:
            self._samples.popleft()


class ConnectionQuotas:
    """Counts connections for all listeners of a broker; every call from any thread.

    The inter-broker listener is protected when it is not the only one: neither the broker-wide count nor the
    broker-wide rate stops it, so brokers can still reach each other when clients have taken every slot.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        listeners: Mapping[str, tuple[int, float]],
        protected_listener: str | None,
        max_connections: int = UNLIMITED,
        max_connections_per_ip: int = UNLIMITED,
        max_connections_per_ip_overrides: Mapping[str, int] | None = None,
        max_connection_creation_rate: float = UNLIMITED,
        window: QuotaWindow | None = None,
    ) -> None:
        """`listeners` maps each listener to its own (`max.connections`, `max.connection.creation.rate`)."""
        self._clock = clock
        self._window = window or QuotaWindow()
        self._condition = threading.Condition()
        self._max = max_connections
        self._max_per_ip = max_connections_per_ip
        self._overrides = dict(max_connections_per_ip_overrides or {})
        self._listener_max = {name: limit for name, (limit, _) in listeners.items()}
        self._listener_rates = {name: ConnectionRate(rate, self._window) for name, (_, rate) in listeners.items()}
        self._rate = ConnectionRate(max_connection_creation_rate, self._window)
        self._inter_broker = protected_listener
        self._protected = protected_listener if len(listeners) > 1 else None
        self._total = 0
        self._closing = 0
        self._by_listener = dict.fromkeys(listeners, 0)
        self._by_address: dict[str, int] = {}
        self._default_ip_rate: float = UNLIMITED
        self._ip_bounds: dict[str, float] = {}
        self._ip_rates: dict[str, ConnectionRate] = {}

    @property
    def total(self) -> int:
        return self._total

    def count(self, listener: str) -> int:
        return self._by_listener[listener]

    def count_of(self, address: str) -> int:
        return self._by_address.get(address, 0)

    def is_protected(self, listener: str) -> bool:
        return listener == self._protected

    # -- configuration, dynamic ----------------------------------------------------------------------------------

    def update_max_connections(self, limit: int) -> None:
        with self._condition:
            self._max = limit
            self._condition.notify_all()

    def update_max_connections_per_ip(self, limit: int, overrides: Mapping[str, int] | None = None) -> None:
        with self._condition:
            self._max_per_ip = limit
            if overrides is not None:
                self._overrides = dict(overrides)

    def update_creation_rate(self, rate: float) -> None:
        with self._condition:
            self._rate.bound = rate
            self._condition.notify_all()

    def update_listener(self, listener: str, max_connections: int, creation_rate: float) -> None:
        with self._condition:
            self._listener_max[listener] = max_connections
            self._listener_rates[listener].bound = creation_rate
            self._condition.notify_all()

    def add_listener(self, listener: str, max_connections: int, creation_rate: float) -> None:
        """One more listener; one that was there before is known again, with what is left of its connections."""
        with self._condition:
            self._listener_max[listener] = max_connections
            self._listener_rates[listener] = ConnectionRate(creation_rate, self._window)
            self._by_listener.setdefault(listener, 0)
            if len(self._listener_max) > 1:
                self._protected = self._inter_broker

    def update_ip_rate(self, address: str | None, rate: float | None) -> None:
        """The `connection_creation_rate` of an address, or of all others (None); a rate of None removes it."""
        with self._condition:
            if address is None:
                self._default_ip_rate = UNLIMITED if rate is None else rate
            elif rate is None:
                self._ip_bounds.pop(address, None)
            else:
                self._ip_bounds[address] = rate
            for known, counter in self._ip_rates.items():
                counter.bound = self._ip_bounds.get(known, self._default_ip_rate)

    # -- connections ---------------------------------------------------------------------------------------------

    def admit(self, listener: str, address: str, stopping: Callable[[], bool]) -> int:
        """Wait for a slot and count a new connection; returns the nanoseconds waited.

        Raises `TooManyConnections` (not counted) or `ConnectionRateExceeded` (not counted, nor in any rate).
        Returns -1 when `stopping` became true first; the connection is then not counted.
        """
        with self._condition:
            waited = self._wait_for_slot(listener, stopping)
            if waited < 0:
                return -1
            self._check_ip_rate(listener, address)
            have = self._by_address.get(address, 0)
            if have >= self._overrides.get(address, self._max_per_ip):
                raise TooManyConnections(f"{address} has {have} connections already")
            self._total += 1
            self._by_listener[listener] += 1
            self._by_address[address] = have + 1
            return waited

    def release(self, listener: str, address: str) -> None:
        """A counted connection is gone."""
        with self._condition:
            self._total -= 1
            self._by_listener[listener] -= 1
            left = self._by_address[address] - 1
            if left:
                self._by_address[address] = left
            else:
                del self._by_address[address]
            self._condition.notify_all()

    def over_limit(self) -> bool:
        return self._total - self._closing > self._max

    def claim_excess(self) -> bool:
        """Whether the caller shall close one connection because the broker has more than its limit; `unclaim_excess`
        must follow when it has. Two processors never close a connection each for the same excess."""
        with self._condition:
            if self._total - self._closing <= self._max:
                return False
            self._closing += 1
            return True

    def unclaim_excess(self) -> None:
        """The claimed connection is closed (and was released before this call)."""
        with self._condition:
            self._closing -= 1

    def _has_slot(self, listener: str) -> bool:
        if self._by_listener[listener] >= self._listener_max[listener]:
            return False
        return listener == self._protected or self._total < self._max

    def _wait_for_slot(self, listener: str, stopping: Callable[[], bool]) -> int:
        clock = self._clock
        now_ms = clock.monotonic_ms()
        listener_rate = self._listener_rates[listener]
        protected = listener == self._protected
        delay = listener_rate.delay_ms(now_ms, 1)
        if not protected:
            delay = max(delay, self._rate.delay_ms(now_ms, 1))
        waited = 0
        if delay or not self._has_slot(listener):
            began = clock.monotonic_ns()
            until_ms = now_ms + delay
            while True:
                left = until_ms - clock.monotonic_ms()
                if left <= 0 and self._has_slot(listener):
                    break
                if stopping():
                    return -1
                clock.wait(self._condition, min(left, _WAIT_STEP_MS) if left > 0 else _WAIT_STEP_MS)
            waited = clock.monotonic_ns() - began
            now_ms = clock.monotonic_ms()
        listener_rate.record(now_ms)
        self._rate.record(now_ms)
        return waited

    def _check_ip_rate(self, listener: str, address: str) -> None:
        bound = self._ip_bounds.get(address, self._default_ip_rate)
        if bound >= UNLIMITED:
            return
        counter = self._ip_rates.get(address)
        now_ms = self._clock.monotonic_ms()
        if counter is None:
            if len(self._ip_rates) >= _TRACKED_ADDRESSES:
                self._forget_idle_addresses(now_ms)
            counter = self._ip_rates[address] = ConnectionRate(bound, self._window)
        counter.record(now_ms)
        throttle_ms = counter.delay_ms(now_ms)
        if throttle_ms:
            counter.unrecord()
            self._listener_rates[listener].unrecord()
            self._rate.unrecord()
            raise ConnectionRateExceeded(throttle_ms)

    def _forget_idle_addresses(self, now_ms: int) -> None:
        """Keep the table of addresses bounded: drop the ones with no recent connection, else the oldest entry."""
        for address, counter in list(self._ip_rates.items()):
            counter.delay_ms(now_ms)  # expires old samples
            if counter.idle:
                del self._ip_rates[address]
        if len(self._ip_rates) >= _TRACKED_ADDRESSES:
            del self._ip_rates[next(iter(self._ip_rates))]
