"""A page's question: parameters of an address or of a body, read with their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from broker.http.console.access import Problem
from network.json_text import parse_json

MAX_TEXT = 1_024


class Question:
    """Each reader raises `Problem` for what is missing, of another type or out of its bounds."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    @classmethod
    def of_body(cls, body: bytes) -> Question:
        """From a JSON object."""
        try:
            values = parse_json(body)
        except ValueError:
            values = None
        if not isinstance(values, dict):
            raise refused("the request is no JSON object")
        return cls(values)

    def text(self, name: str, default: str | None = None, maximum: int = MAX_TEXT) -> str:
        value = self._values.get(name, default)
        if not isinstance(value, str) or len(value) > maximum:
            raise refused(f"{name} has to be a text of at most {maximum} characters")
        return value

    def number(self, name: str, default: int | None = None, low: int = 0, high: int = 2**63 - 1) -> int:
        value = self._values.get(name, default)
        if isinstance(value, str):
            try:
                value = int(value[:20])
            except ValueError:
                value = None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise refused(f"{name} has to be a number from {low} to {high}")
        return value

    def one_of(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        value = self._values.get(name, default)
        if value not in choices:
            raise refused(f"{name} has to be one of {', '.join(choices)}")
        return str(value)

    def texts(self, name: str, maximum: int) -> list[str]:
        """A list, or its items behind each other with a line feed between."""
        value = self._values.get(name, [])
        if isinstance(value, str):
            value = value.split("\n")
        is_list = isinstance(value, list) and all(isinstance(item, str) and len(item) <= MAX_TEXT for item in value)
        if not is_list or len(value) > maximum:
            raise refused(f"{name} has to be a list of at most {maximum} texts")
        return list(value)

    def map(self, name: str, maximum: int) -> dict[str, Any]:
        """An object, empty if there is none."""
        value = self._values.get(name) or {}
        if not isinstance(value, dict) or len(value) > maximum:
            raise refused(f"{name} has to be an object of at most {maximum} entries")
        return value


def refused(text: str) -> Problem:
    """For a question that cannot be answered as it is."""
    return Problem(HTTPStatus.BAD_REQUEST, "question", text)


def cluster_refused(text: str) -> Problem:
    """For what the cluster does not do."""
    return Problem(HTTPStatus.CONFLICT, "refused", text)
