"""Hypothesis strategies for protocol messages, built from the declared fields."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from network.protocol.fields import UNSET, Field
from network.protocol.message import Struct

_INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}

_TEXT = st.one_of(st.text(max_size=12), st.sampled_from(["", "a" * 126, "b" * 127, "c" * 128, "ü" * 200]))
_BYTES = st.one_of(st.binary(max_size=12), st.sampled_from([b"", b"x" * 126, b"y" * 127, b"z" * 300]))


@cache
def structs(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Instances of `cls` that have an encoding in `version`."""
    fields = {field.name: values(field, version) for field in cls.FIELDS if version in field.versions}
    return st.builds(cls, **fields)


def values(field: Field, version: int) -> st.SearchStrategy[Any]:
    """Values that `field` may have in `version`."""
    strategy = _plain(field, version)
    if version in field.nullable:
        strategy = st.none() | strategy
    if field.tag is not None and field.default is not UNSET:
        strategy = st.just(field.default) | strategy
    return strategy


def _plain(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.kind == "bool":
        return st.booleans()
    if field.kind == "float64":
        return st.floats(allow_nan=False, allow_infinity=False)
    if field.kind == "uuid":
        return st.sampled_from([bytes(16), bytes(range(16)), b"\xff" * 16])
    if field.kind == "string":
        return _TEXT
    if field.kind in ("bytes", "records"):
        return _BYTES
    if field.kind == "struct":
        assert field.struct is not None
        return structs(field.struct, version)
    if field.kind == "array":
        assert field.element is not None
        return st.lists(values(field.element, version), max_size=2)
    if field.name.endswith("error_code"):
        return st.integers(-1, 119)
    low, high = _INTEGERS[field.kind]
    return st.sampled_from([0, -1 if low else 1, low, high, 300 % high])
