"""An HTTP request as a handler sees it, and the answer that it gives."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

TEXT = "text/plain; charset=utf-8"
JSON = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`query` has the last value of a parameter that is given twice; `headers` have lower-case names. `peer` is the
    address that the connection comes from."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    method: str = "GET"
    body: bytes = b""
    peer: str = ""

    @classmethod
    def of(
        cls, target: str, headers: Mapping[str, str], method: str = "GET", body: bytes = b"", peer: str = ""
    ) -> HttpRequest:
        """From a request target such as `/metrics?partitions=no`. Raises `ValueError` for a malformed one."""
        parts = urlsplit(target)
        return cls(parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), headers, method, body, peer)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A status with a body: all of it, or pieces that are sent as they are made (then of unknown length)."""

    status: HTTPStatus
    content_type: str
    body: bytes | AsyncIterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]


def text_response(status: HTTPStatus, text: str, **headers: str) -> HttpResponse:
    """A line or more of plain text."""
    return HttpResponse(status, TEXT, f"{text}\n".encode(), headers)


def json_response(status: HTTPStatus, value: object) -> HttpResponse:
    """A value as JSON, indented for people."""
    return HttpResponse(status, JSON, f"{json.dumps(value, indent=2)}\n".encode())
