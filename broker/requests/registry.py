"""The table of APIs that this broker serves, and the `Call` a handler gets.

A handler module declares itself with `@api(ApiKey.FETCH, versions=(0, 17))`; importing the module is what registers
it. ApiVersions advertises exactly the rows of this table, so an API that nobody has built is never offered.

A handler either returns its response, or returns `None`, keeps the `Call` and answers later, from any thread, with
exactly one of `call.respond(...)`, `call.close_connection()`. Errors are raised: `ApiError`, or a log error that
names a Kafka error code. The dispatcher turns them into the API's own error form (`error_form`). For the few requests
that Kafka closes the connection on instead, a handler raises `RefusedError`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from network.protocol.api import API, ApiKey
from network.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from broker.requests.context import BrokerContext
    from network.protocol.header import RequestHeader
    from network.server.connection_info import ConnectionInfo
    from network.server.request import Request

RequestT = TypeVar("RequestT")

MAX_INT = 2**31 - 1

Handler = Callable[["Call[Any]"], Any]
ErrorForm = Callable[["Call[Any]", ErrorCode, "str | None"], Any]
VersionLimit = Callable[["KafkaConfig"], int]
"""The highest version that a broker with these settings serves."""
Condition = Callable[["KafkaConfig"], bool]
"""Whether a broker with these settings serves an API at all."""


class RefusedError(Exception):
    """The request gets no answer: the connection is closed, and the log says why in these words."""


class Call(Generic[RequestT]):
    """One request being answered: the decoded message, who sent it, and the broker it was sent to."""

    __slots__ = ("_answered", "_raw", "broker", "connection", "header", "request", "throttle_time_ms")

    def __init__(self, raw: Request, request: RequestT, broker: BrokerContext) -> None:
        self._raw = raw
        self._answered = False
        self.request: RequestT = request
        self.header: RequestHeader = raw.header
        self.connection: ConnectionInfo = raw.connection
        self.broker: BrokerContext = broker
        self.throttle_time_ms = 0

    # What a call has to do with quotas; `QuotaCall` is what this is not.
    has_quotas = False

    def exempt(self) -> None:
        """It comes from a broker, and no quota is for it."""

    def most_bytes(self) -> int:
        """The largest answer to a consumer that may be given at all."""
        return MAX_INT

    def withholds(self, size: int) -> bool:
        """Whether an answer of so many bytes to a consumer has to be held back."""
        return False

    def charge_mutations(self, count: int, *, strict: bool) -> None:
        """Count so many partitions made or deleted; `strict`: raises THROTTLING_QUOTA_EXCEEDED."""

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def size(self) -> int:
        """Bytes of the request body."""
        return self._raw.size

    @property
    def raw(self) -> Request:
        """The request as the network layer knows it."""
        return self._raw

    @property
    def answered(self) -> bool:
        return self._answered

    @property
    def is_gone(self) -> bool:
        """Whether the client has gone meanwhile. The call has to be answered all the same: `close_connection` is the
        cheapest answer."""
        return self._raw.is_gone

    def respond(self, response: Any | None) -> None:
        """Answer; `None` means that nothing goes on the wire (Produce with acks=0)."""
        if self._answered:
            raise AssertionError(f"{self.header} is answered twice")
        self._answered = True
        self._raw.respond(response)

    def close_connection(self, unsent: Any | None = None) -> None:
        """End the connection instead of answering; the errors in `unsent`, the answer that is not sent, count."""
        if self._answered:
            raise AssertionError(f"{self.header} is answered twice")
        self._answered = True
        self._raw.close_connection(unsent)

    def pause(self, pause_ms: int) -> None:
        """Read no more from the connection for so long after the answer, for the broker's own sake; must precede it."""
        self.start_throttle(pause_ms)

    def start_throttle(self, throttle_time_ms: int) -> None:
        """Stop reading from the connection for a while; must precede the answer."""
        if throttle_time_ms > 0:
            self.throttle_time_ms = throttle_time_ms
            self._raw.start_throttle(throttle_time_ms)


@dataclass(frozen=True, slots=True)
class ApiHandler:
    """A row of the table."""

    key: int
    name: str
    min_version: int
    max_version: int
    handle: Handler
    error_form: ErrorForm
    limit: VersionLimit | None = None
    enabled: Condition | None = None
    needs_brokers: bool = False
    """Answers from what the broker knows of the live brokers, so not before it has been told (`start_gate`)."""


HANDLERS: dict[int, ApiHandler] = {}


def api(
    key: ApiKey,
    versions: tuple[int, int],
    *,
    error_form: ErrorForm | None = None,
    limit: VersionLimit | None = None,
    enabled: Condition | None = None,
    needs_brokers: bool = False,
) -> Callable[[Callable[[Call[Any]], Any]], Callable[[Call[Any]], Any]]:
    """Register the decorated function as the handler of `key` for the inclusive range `versions`.

    `error_form(call, code, message)` builds the answer for a request that failed as a whole; without it a response
    with only its top-level error fields set is sent, or, where the API has none, the connection is closed. `limit`
    may lower the highest version by the broker's settings; an API that is not `enabled` by them is not served.
    `needs_brokers`: see `ApiHandler`.
    """

    def register(handle: Callable[[Call[Any]], Any]) -> Callable[[Call[Any]], Any]:
        if int(key) in HANDLERS and HANDLERS[int(key)].handle.__module__ != handle.__module__:
            raise ValueError(f"{key.name} is registered twice")
        spec = API[int(key)]
        if not spec.min_version <= versions[0] <= versions[1] <= spec.max_version:
            raise ValueError(f"{key.name} has no versions {versions}")
        form = error_form or _top_level_error
        HANDLERS[int(key)] = ApiHandler(
            int(key), spec.name, versions[0], versions[1], handle, form, limit, enabled, needs_brokers
        )
        return handle

    return register


def handlers_for(config: KafkaConfig) -> dict[int, ApiHandler]:
    """The table of a broker with these settings."""
    return {
        key: row if row.limit is None else replace(row, max_version=min(row.max_version, row.limit(config)))
        for key, row in HANDLERS.items()
        if row.enabled is None or row.enabled(config)
    }


def _top_level_error(call: Call[Any], code: ErrorCode, message: str | None) -> Any | None:
    response_class = API[call.header.api_key].response
    fields = getattr(response_class, "__slots__", ())
    if "error_code" not in fields:
        return None
    response = response_class()
    response.error_code = int(code)  # type: ignore[attr-defined]
    if "error_message" in fields:
        response.error_message = message  # type: ignore[attr-defined]
    return response
