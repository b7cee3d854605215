"""Says which value of a message keeps it from being encoded.

Compiled encoders do not check values one by one: they let Python refuse what is wrong. Only then is the message walked
through here, to name the field and its value.
"""

from __future__ import annotations

import struct
from typing import Any

from network.protocol.codegen import present, tagged
from network.protocol.fields import FIXED_FORMATS, Field, MessageSchema, Schema


def explain(message: MessageSchema, version: int) -> str | None:
    """The first value that `version` cannot hold, in words; None when none is found."""
    return _explain_struct(message, type(message), version, version >= message.FLEXIBLE_VERSION, "")


def _explain_struct(value: Any, cls: type[Schema], version: int, flexible: bool, path: str) -> str | None:
    if not isinstance(value, cls):
        return f"{path.rstrip('.') or 'it'} is {_short(value)}, not a {cls.__name__}"
    for field in present(cls, version) + tagged(cls, version, flexible):
        inner = getattr(value, field.slot)
        if inner is None and field.lazy:
            continue
        found = _explain_value(inner, field, version, flexible, path + field.name)
        if found is not None:
            return found
    return None


def _explain_value(value: Any, field: Field, version: int, flexible: bool, path: str) -> str | None:
    if value is None:
        return None if version in field.nullable else f"{path} may not be null"
    if field.kind == "struct":
        assert field.struct is not None
        return _explain_struct(value, field.struct, version, flexible, path + ".")
    if field.kind == "array":
        assert field.element is not None
        if not isinstance(value, list | tuple):
            return f"{path} is {_short(value)}, not a list"
        for item in value:
            found = _explain_value(item, field.element, version, flexible, path)
            if found is not None:
                return found
        return None
    try:
        _encode(value, field.kind)
    except (struct.error, AttributeError, TypeError, ValueError) as error:
        detail = f" ({error})" if field.kind == "string" else ""
        return f"{path} is {_short(value)}, which is no {field.kind}{detail}"
    return None


def _encode(value: Any, kind: str) -> None:
    if kind == "string":
        if len(value.encode()) > 32767:
            raise ValueError("longer than 32767 bytes")
    elif kind == "uuid":
        if len(value) != 16:
            raise ValueError
    elif kind in FIXED_FORMATS:
        struct.pack(">" + FIXED_FORMATS[kind], value)
    elif kind == "bytes":
        memoryview(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
