"""The error codes of a response as Apache Kafka counts them in its metrics: each one that the answer carries, NONE too.

That is every field `error_code` wherever it stands in the schema, but for a few APIs whose answers are counted by rules
of their own. The functions are compiled from the schemas, because every answer passes through one; each is a single
expression whose loops are the interpreter's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from network.protocol.message import Response, Struct

ErrorCodes = Callable[[Any], tuple[int, ...]]

_NAMES: Final = ("error_code", "partition_error_code")
_Path = tuple[str, ...]
"""The lists on the way to the field, and the field."""

# Fields that are not counted, because they repeat another or belong to something that is counted as a whole.
_LEFT_OUT: Final[dict[str, set[_Path]]] = {
    "DeleteAcls": {("filter_results", "matching_acls", "error_code")},
    "DescribeUserScramCredentials": {("error_code",)},
}
# The field at the top counts only where this list is empty.
_INSTEAD_OF_TOP: Final = {
    "FindCoordinator": "coordinators",
    "OffsetFetch": "groups",
    "AddPartitionsToTxn": "results_by_topic_v3_and_below",
}
# An error at the top counts for every partition, whatever stands there.
_TOP_FOR_ALL: Final = frozenset({"LeaderAndIsr", "StopReplica"})


def error_codes_of(api: str, response: type[Response]) -> ErrorCodes:
    """A function that lists the error codes of an answer of the API with this name."""
    env: dict[str, Any] = {"each": chain.from_iterable}
    parts = []
    for path in _paths(response):
        if path in _LEFT_OUT.get(api, set()):
            continue
        *lists, field = path
        if lists:
            parts.append(f"*{_mapped(field, _joined(lists, env), env)}")
        elif api in _INSTEAD_OF_TOP:
            parts.append(f"*(() if message.{_INSTEAD_OF_TOP[api]} else (message.{field},))")
        else:
            parts.append(f"message.{field}")
    codes = "()" if not parts else f"({', '.join(parts)},)" if len(parts) > 1 else _alone(parts[0])
    if api in _TOP_FOR_ALL:
        codes = f"(message.error_code,) * len({codes}) if message.error_code else {codes}"
    exec(compile(f"def error_codes(message):\n    return {codes}\n", f"<{response.__name__} error codes>", "exec"), env)
    found: ErrorCodes = env["error_codes"]
    return found


def _alone(part: str) -> str:
    return f"tuple({part[1:]})" if part.startswith("*") else f"({part},)"


def _joined(lists: Sequence[str], env: dict[str, Any]) -> str:
    """An expression for all elements of the innermost of lists within lists."""
    elements = f"message.{lists[0]}"
    for name in lists[1:]:
        elements = f"each({_mapped(name, elements, env)})"
    return elements


def _mapped(field: str, elements: str, env: dict[str, Any]) -> str:
    env[f"{field}_of"] = attrgetter(field)
    return f"map({field}_of, {elements})"


def _paths(struct: Any, before: _Path = ()) -> Iterator[_Path]:
    for field in struct.FIELDS:
        if field.name in _NAMES:
            yield (*before, field.name)
        inner: type[Struct] | None = field.element.struct if field.element is not None else None
        if inner is not None:
            yield from _paths(inner, (*before, field.name))
