"""What the decoders of all three kinds have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from spark_jobs.schemas.registry import Schema

T = TypeVar("T")
# Writers' schemas that a decoder remembers.
MAX_WRITERS = 1000


class UnsupportedSchemaError(Exception):
    """A schema that Spark has no type for, or that needs a package which is not installed."""


class RecordError(ValueError):
    """A record that can't be decoded."""


class Decoder(Protocol):
    """Turns payloads into the reader schema's type. Made on the driver for the type, and on executors for the work."""

    arrow_type: pa.DataType

    def read(self, writer: Schema, payload: bytes) -> Any:
        """One value, of a form that only `to_arrow` knows. Raises RecordError, and UnsupportedSchemaError where the
        writer's schema itself is the trouble."""

    def to_arrow(self, values: Sequence[Any]) -> pa.Array:
        """Values, None among them, as one array. Raises RecordError or an ArrowException for values that don't fit."""


def remembered(cache: dict[int, T], schema: Schema, make: Callable[[Schema], T]) -> T:
    """What was made of a writer's schema, or is now; all is forgotten when there are too many."""
    found = cache.get(schema.id)
    if found is None:
        if len(cache) >= MAX_WRITERS:
            cache.clear()
        found = cache[schema.id] = make(schema)
    return found


def missing(package: str) -> UnsupportedSchemaError:
    """For a package of the extra that is not there."""
    return UnsupportedSchemaError(f"{package} is not installed: pip install 'odradek[schemas]', on executors too")
