"""The request log: one line a finished request, in Kafka's form `Completed request:{...}`.

It is on while `kafka.request.logger` stands at DEBUG; at TRACE the request's fields are there too. Bytes (records,
passwords, tokens) are shown by their number only, and so are values of configs that are or may be passwords.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from broker.config.broker_keys import BROKER_KEYS
from broker.config.keys import ConfigType
from broker.config.topic_keys import TOPIC_KEYS
from network.protocol.errors import ErrorCode, ProtocolError
from network.protocol.message import Struct
from network.server.request import Request
from network.server.request_metrics import parts_ns

REQUEST_LOGGER: Final = "kafka.request.logger"
TRACE: Final = logging.DEBUG - 5
MAX_ENTRIES: Final = 100
"""So many entries of a list are shown."""
_MS: Final = 1_000_000
_HIDDEN: Final = "(hidden)"

logger = logging.getLogger(REQUEST_LOGGER)


def request_log() -> Callable[[Request, int], None] | None:
    """What is to be told of finished requests and of the time at which they were out; None while the log is off."""
    return log_request if logger.isEnabledFor(logging.DEBUG) else None


def log_request(request: Request, done_ns: int) -> None:
    """Write the line of one request."""
    logger.debug("Completed request:%s", json.dumps(described(request, done_ns), separators=(",", ":")))


def described(request: Request, done_ns: int) -> dict[str, Any]:
    """What the line says; times are milliseconds."""
    header, connection = request.header, request.connection
    queued, local, remote, _, queued_again, sent = map(_ms, parts_ns(request, done_ns))
    time_ns, memory = request.conversion or (0, 0)
    shown: dict[str, Any] = {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": header.api_key,
            "requestApiVersion": header.api_version,
            "correlationId": header.correlation_id,
            "clientId": header.client_id,
            "requestApiKeyName": request.spec.key.name,
        },
    }
    if logger.isEnabledFor(TRACE):
        shown["request"] = _fields(request)
    return {
        **shown,
        "errors": {ErrorCode.of(code).name: count for code, count in Counter(request.error_codes).items()},
        "connection": connection.id,
        "totalTimeMs": _ms(max(0, done_ns - request.received_ns)),
        "requestQueueTimeMs": queued,
        "localTimeMs": local,
        "remoteTimeMs": remote,
        "throttleTimeMs": request.throttle_time_ms,
        "responseQueueTimeMs": queued_again,
        "sendTimeMs": sent,
        "securityProtocol": connection.security_protocol,
        "principal": connection.principal,
        "listener": connection.listener_name,
        "clientInformation": {
            "softwareName": connection.software_name,
            "softwareVersion": connection.software_version,
        },
        "temporaryMemoryBytes": memory,
        "messageConversionsTime": time_ns / _MS,
    }


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / _MS, 3)


def _fields(request: Request) -> Any:
    try:
        return _shown(request.message)
    except ProtocolError:
        return None


def _shown(value: Any) -> Any:
    if isinstance(value, Struct):
        shown = {_camel(field.name): _shown(getattr(value, field.name)) for field in value.FIELDS}
        if "value" in shown and "name" in shown and not _may_be_shown(str(shown["name"])):
            shown["value"] = _HIDDEN
        return shown
    if isinstance(value, list | tuple):
        more = len(value) - MAX_ENTRIES
        return [_shown(each) for each in value[:MAX_ENTRIES]] + ([f"and {more} more"] if more > 0 else [])
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({len(value)} bytes)"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _may_be_shown(key: str) -> bool:
    """Only of a key that is known, and known not to be a password."""
    known = BROKER_KEYS.get(key) or TOPIC_KEYS.get(key)
    return known is not None and known.type is not ConfigType.PASSWORD


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
