"""The error codes of a response as Apache Kafka counts them in its metrics: each one that the answer carries, NONE too.

That is every field `error_code` wherever it stands in the schema, but for a few APIs whose answers are counted by rules
of their own. The functions are compiled from the schemas, because every answer passes through one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, Final

from network.protocol.message import Response, Struct

ErrorCodes = Callable[[Any], list[int]]

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
    paths = [path for path in _paths(response) if path not in _LEFT_OUT.get(api, set())]
    body = ["codes = []"]
    for path in paths:
        *lists, field = path
        holder, indent = "message", ""
        if not lists and api in _INSTEAD_OF_TOP:
            body.append(f"if not message.{_INSTEAD_OF_TOP[api]}:")
            indent = "    "
        for depth, name in enumerate(lists[:-1]):
            body.append(f"{indent}for e{depth} in {holder}.{name}:")
            holder, indent = f"e{depth}", indent + "    "
        if lists:
            body.append(f"{indent}codes += map({field}_of, {holder}.{lists[-1]})")
        else:
            body.append(f"{indent}codes.append({holder}.{field})")
    if api in _TOP_FOR_ALL:
        body += ["if message.error_code:", "    codes = [message.error_code] * len(codes)"]
    env: dict[str, Any] = {f"{name}_of": attrgetter(name) for name in _NAMES}
    source = "def error_codes(message):\n" + "".join(f"    {line}\n" for line in (*body, "return codes"))
    exec(compile(source, f"<{response.__name__} error codes>", "exec"), env)
    found: ErrorCodes = env["error_codes"]
    return found


def _paths(struct: Any, before: _Path = ()) -> Iterator[_Path]:
    for field in struct.FIELDS:
        if field.name in _NAMES:
            yield (*before, field.name)
        inner: type[Struct] | None = field.element.struct if field.element is not None else None
        if inner is not None:
            yield from _paths(inner, (*before, field.name))
