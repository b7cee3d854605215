"""Messages whose fields hold what a careless check would miss: limits, wrong counts, names that exist and that don't.

They are made from the declarations of the messages, so a new field or API is fuzzed from the day it is declared.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from network.protocol.fields import Field
from network.protocol.message import Struct
from tests.fuzz.record_data import any_records

NAMES = ("fuzz-a", "fuzz-b", "fuzz-compacted")
"""Topics that exist, with two partitions each."""
TEXTS = (
    *NAMES,
    "",
    "fuzz-none",
    "fuzz-group",
    "fuzz-other",
    "fuzz-tx",
    "__consumer_offsets",
    "0",
    "1",
    "range",
    "consumer",
)
ODD_TEXTS = (".", "..", "a/b", "\0", "é" * 40, "x" * 249, "x" * 250, "y" * 20_000, "%n%s", "\r\n", "-1", "\ud7ff", "*")
_BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
_SMALL = (-2, -1, 0, 0, 0, 1, 1, 2, 3, 5)
PATIENCE = ("max_wait_ms", "timeout_ms")
"""Fields by which a request may ask to be kept waiting."""


def message(cls: type[Struct], version: int, rng: random.Random, depth: int = 0) -> Any:
    """An instance that `version` can hold, unless a value is drawn that nobody can encode."""
    made = cls()
    for field in cls.FIELDS:
        if version in field.versions:
            setattr(made, field.name, _value(field, version, rng, depth))
    if rng.random() < 0.02:
        made.unknown_tags = {rng.choice((90, 127, 128, 2**31 - 1)): rng.randbytes(rng.randrange(40))}
    return made


def _value(field: Field, version: int, rng: random.Random, depth: int) -> Any:
    if version in field.nullable and rng.random() < 0.15:
        return None
    if field.kind == "struct":
        assert field.struct is not None
        return message(field.struct, version, rng, depth + 1)  # type: ignore[arg-type]
    if field.kind == "array":
        assert field.element is not None
        count = rng.choices((0, 1, 2, 3, 40), (15, 60, 15, 9, 1))[0] if depth < 3 else rng.randrange(2)
        items = [_value(field.element, version, rng, depth + 1) for _ in range(count)]
        return items + items[:1] if rng.random() < 0.05 else items
    if field.name in PATIENCE and rng.random() < 0.9:
        return rng.randrange(20)
    return _KINDS.get(field.kind, _integer)(field, rng)


def _integer(field: Field, rng: random.Random) -> int:
    bits = _BITS[field.kind]
    drawn = rng.random()
    unsigned = field.kind.startswith("u")
    if drawn < 0.75:
        found = rng.choice(_SMALL)
    elif drawn < 0.9:
        found = rng.choice((2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 2 ** (bits - 1) - 2, 1 << (bits // 2)))
    else:
        found = rng.getrandbits(bits) - 2 ** (bits - 1)
    return found % 2**bits if unsigned else found


def _text(field: Field, rng: random.Random) -> str:
    return rng.choice(ODD_TEXTS) if rng.random() < 0.15 else rng.choice(TEXTS)


def _bytes(field: Field, rng: random.Random) -> bytes:
    return rng.choice((b"", b"\0\0", b"\0\0\0\0\0\0", b"\xff" * 8, rng.randbytes(rng.randrange(200))))


_KINDS: dict[str, Callable[[Field, random.Random], Any]] = {
    "string": _text,
    "bytes": _bytes,
    "records": lambda field, rng: any_records(rng),
    "bool": lambda field, rng: rng.random() < 0.5,
    "float64": lambda field, rng: rng.choice((0.0, -1.0, 1.5, 1e308, float("inf"), float("-inf"), float("nan"))),
    "uuid": lambda field, rng: rng.choice((bytes(16), bytes(15) + b"\1", b"\xff" * 16, rng.randbytes(16))),
}
