"""The clients that push metrics to this broker: what each was told to push, and whether a request of it is in time
(KIP-714).

A client asks for its subscription, and pushes at the interval that it was told; the first push after an answer may come
at any time, for clients spread their pushes by chance. What comes too early is refused.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

from broker.telemetry.subscriptions import ClientSubscription, Subscriptions
from network.protocol.errors import ApiError, ErrorCode
from timer.clock import Clock

MAX_CLIENTS = 16_384
"""Remembered at a time; one more puts out the one that was not heard of for longest."""
MIN_EXPIRY_MS = 60_000
_EXPIRY_INTERVALS = 3
_NEVER = -(2**62)
# After these a client may ask again at once. (Kafka 3.9.1 has it wait: of two conditions one is always met.)
_ASK_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def expiry_ms(interval_ms: int) -> int:
    """How long a client, and what it pushed, is remembered after it was last heard of."""
    return max(MIN_EXPIRY_MS, interval_ms * _EXPIRY_INTERVALS)


class Client:
    """One client instance. Times are in ms of the clock."""

    __slots__ = (
        "asked_ms",
        "expires_ms",
        "has_asked",
        "last_error",
        "pushed_ms",
        "subscription",
        "terminating",
        "version",
    )

    def __init__(self, version: int, subscription: ClientSubscription) -> None:
        self.version = version
        self.subscription = subscription
        self.asked_ms = self.pushed_ms = _NEVER
        self.has_asked = False
        """Since its last push."""
        self.expires_ms = 0
        self.last_error = ErrorCode.NONE
        self.terminating = False

    def may_ask(self, now_ms: int) -> bool:
        waited_ms = now_ms - max(self.asked_ms, self.pushed_ms)
        if waited_ms < self.subscription.interval_ms and self.last_error not in _ASK_AGAIN:
            return False
        self.asked_ms, self.has_asked = now_ms, True
        return True

    def may_push(self, now_ms: int) -> bool:
        if not self.has_asked and now_ms - self.pushed_ms < self.subscription.interval_ms:
            return False
        self.pushed_ms, self.has_asked = now_ms, False
        return True


class Clients:
    """Asked from any thread. `throttled` and `unknown` count requests that came too early, and pushes for another
    subscription than the client's."""

    def __init__(self, subscriptions: Subscriptions, clock: Clock, *, max_bytes: int) -> None:
        self._subscriptions = subscriptions
        self._clock = clock
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._clients: OrderedDict[bytes, Client] = OrderedDict()  # who was not heard of for longest first
        self.throttled = self.unknown = 0

    def __len__(self) -> int:
        return len(self._clients)

    def subscribe(self, instance: bytes, attributes: Mapping[str, str]) -> ClientSubscription:
        """What the client shall push. Raises `ApiError`."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            client = self._client(instance, attributes, now_ms)
            if not client.may_ask(now_ms):
                raise self._too_early()
            client.last_error = ErrorCode.NONE
            return client.subscription

    def check_push(
        self,
        instance: bytes,
        attributes: Mapping[str, str],
        subscription_id: int,
        *,
        terminating: bool,
        is_codec_known: bool,
        size: int,
    ) -> ClientSubscription:
        """Raises `ApiError` for what is not to be taken; nothing of it has been looked at then."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            client = self._client(instance, attributes, now_ms)
            try:
                if client.terminating:
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                if not client.may_push(now_ms) and not terminating:
                    raise self._too_early()
                if subscription_id != client.subscription.id:
                    self.unknown += 1
                    raise ApiError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
                if not is_codec_known:
                    raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
                if size > self._max_bytes:
                    raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE)
            except ApiError as error:
                client.last_error = error.code
                raise
            finally:
                client.terminating = terminating
            client.last_error = ErrorCode.NONE
            return client.subscription

    def expire(self) -> None:
        """Forget who was not heard of for long."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            for instance in [each for each, client in self._clients.items() if client.expires_ms <= now_ms]:
                del self._clients[instance]

    def _client(self, instance: bytes, attributes: Mapping[str, str], now_ms: int) -> Client:
        """A client is one anew when subscriptions have changed since it was last heard of."""
        client = self._clients.get(instance)
        if client is None or client.expires_ms <= now_ms or client.version != self._subscriptions.version:
            client = self._clients[instance] = Client(*self._subscriptions.of_client(instance, attributes))
            if len(self._clients) > MAX_CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(instance)
        client.expires_ms = now_ms + expiry_ms(client.subscription.interval_ms)
        return client

    def _too_early(self) -> ApiError:
        self.throttled += 1
        return ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
