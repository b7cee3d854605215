"""What a schema lets the bytes of a record do to fastavro, found by looking at the schema.

fastavro's compiled reader (1.13.1) has no bound of its own: a record that nests as deeply as its writer likes takes all
of the stack and ends the process (in a field that is passed over, too), and an array of items that take no bytes is as
long as five bytes say. Payloads are not ours, so such schemas are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Named = Mapping[str, Any]


def endless(schema: Any, named: Named) -> str | None:
    """The name of a type that is met again inside itself, so that its values may nest without end."""
    return _endless(schema, named, (), set())


def has_items_without_bytes(schema: Any, named: Named) -> bool:
    """Whether there is an array whose items are written as nothing: nulls, or records of nothing else."""
    known: dict[str, bool] = {}
    return any(
        isinstance(each, Mapping) and each["type"] == "array" and _is_free(each["items"], named, known)
        for each in _all(schema, named)
    )


def _parts(schema: Any) -> Iterator[Any]:
    """The schemas just inside this one; names of types as they stand."""
    if isinstance(schema, list):
        yield from schema
    elif isinstance(schema, Mapping):
        kind = schema["type"]
        if kind in ("record", "error"):
            yield from (each["type"] for each in schema["fields"])
        elif kind == "array":
            yield schema["items"]
        elif kind == "map":
            yield schema["values"]
        elif kind not in ("enum", "fixed"):
            yield kind


def _name(schema: Any, named: Named) -> str | None:
    name = schema.get("name") if isinstance(schema, Mapping) else schema
    return name if isinstance(name, str) and name in named else None


def _endless(schema: Any, named: Named, within: tuple[str, ...], done: set[str]) -> str | None:
    name = _name(schema, named)
    if name in within:
        return name
    if name in done:
        return None
    if name is not None:
        schema, within = named[name], (*within, name)
        done.add(name)
    found = (_endless(each, named, within, done) for each in _parts(schema))
    return next((each for each in found if each is not None), None)


def _all(schema: Any, named: Named) -> Iterator[Any]:
    """Every schema inside this one and itself, named types once."""
    seen: set[str] = set()
    left = [schema]
    while left:
        each = left.pop()
        name = _name(each, named)
        if name is not None:
            if name in seen:
                continue
            seen.add(name)
            each = named[name]
        yield each
        left.extend(_parts(each))


def _is_free(schema: Any, named: Named, known: dict[str, bool]) -> bool:
    """Whether a value of this schema is no byte at all; `known` are the answers for names so far."""
    name = _name(schema, named)
    if name is not None:
        if name not in known:
            known[name] = False  # met inside itself: without an end, so without a value
            known[name] = _is_free_itself(named[name], named, known)
        return known[name]
    return _is_free_itself(schema, named, known)


def _is_free_itself(schema: Any, named: Named, known: dict[str, bool]) -> bool:
    if not isinstance(schema, Mapping):
        return isinstance(schema, str) and schema == "null"  # a union tells its branch
    kind = schema["type"]
    if kind == "fixed":
        return bool(schema["size"] == 0)
    if kind in ("array", "map", "enum"):
        return False
    return all(_is_free(each, named, known) for each in _parts(schema))
