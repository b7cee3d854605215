"""Field specifiers: the words in which messages are declared.

A message class lists its fields in wire order, one annotated attribute each:

    class FetchPartition(Struct):
        partition: int = int32()
        current_leader_epoch: int = int32("9+", default=-1, ignorable=True)

The first argument is the range of message versions that carry the field (`"9+"`, `"0-14"`, `"3"`), `nullable` the
range in which null is allowed, `tag` makes it a tagged field (KIP-482). `ignorable` fields are dropped without an error
by versions that lack them; any other field with a value that is not its default is refused by the encoder.

To a type checker the specifiers return the attribute's type, so an attribute looks like one with a default; at run time
they return a `Field`, which `message.StructMeta` collects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias, TypeVar, cast

from network.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from network.server.file_range import FileRange

T = TypeVar("T")

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes in memory."""

if TYPE_CHECKING:
    Records: TypeAlias = Buffer | FileRange | Sequence[Buffer | FileRange]
    """What a records field may be given to encode; a decoded one is a `memoryview` (see `primitives.as_buffer`)."""
else:
    Records = object

LAST_VERSION: Final = 32767
NEVER: Final = LAST_VERSION + 1
"""The flexible version of a message that never becomes flexible."""

FIXED_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""struct format of the types whose size never varies."""


class Schema(Protocol):
    """What the compilers ask of the class of a struct; `message.Struct` is one."""

    FIELDS: ClassVar[tuple[Field, ...]]


class MessageSchema(Schema, Protocol):
    """And of the class of a message."""

    FLEXIBLE_VERSION: ClassVar[int]


class _Unset:
    def __repr__(self) -> str:
        return "<unset>"


UNSET: Final = _Unset()


def version_range(text: str) -> range:
    """`"3+"`, `"0-14"` or `"3"` as a range of versions."""
    if text.endswith("+"):
        return range(int(text[:-1]), LAST_VERSION + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field; `kind` is a key of FIXED_FORMATS, or string, bytes, records, struct, array."""

    kind: str
    versions: range
    nullable: range
    default: Any
    ignorable: bool
    tag: int | None
    struct: type[Schema] | None = None
    element: Field | None = None
    name: str = ""

    def named(self, name: str) -> Field:
        return replace(self, name=name)

    @property
    def slot(self) -> str:
        """The slot that holds the value: struct fields are made when they are first looked at."""
        return f"_{self.name}" if self.lazy else self.name

    @property
    def lazy(self) -> bool:
        return self.kind == "struct" and self.default is UNSET


_DEFAULTS: Final[dict[str, Any]] = {
    "bool": False,
    "float64": 0.0,
    "uuid": ZERO_UUID,
    "string": "",
    "bytes": b"",
    "records": None,
    "struct": UNSET,
    "array": UNSET,
}


def _field(
    kind: str,
    versions: str,
    nullable: str | None,
    default: object,
    ignorable: bool,
    tag: int | None,
    struct: type[Schema] | None = None,
    element: Field | None = None,
) -> Any:
    if isinstance(default, _Unset):
        default = _DEFAULTS.get(kind, 0)
    null_versions = version_range(nullable) if nullable else range(0)
    return Field(kind, version_range(versions), null_versions, default, ignorable, tag, struct, element)


def boolean(versions: str = "0+", *, default: bool = False, ignorable: bool = False, tag: int | None = None) -> bool:
    """One byte, 0 is false."""
    return cast(bool, _field("bool", versions, None, default, ignorable, tag))


def int8(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> int:
    return cast(int, _field("int8", versions, None, default, ignorable, tag))


def int16(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> int:
    return cast(int, _field("int16", versions, None, default, ignorable, tag))


def int32(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> int:
    return cast(int, _field("int32", versions, None, default, ignorable, tag))


def int64(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> int:
    return cast(int, _field("int64", versions, None, default, ignorable, tag))


def float64(versions: str = "0+", *, default: float = 0.0, ignorable: bool = False, tag: int | None = None) -> float:
    return cast(float, _field("float64", versions, None, default, ignorable, tag))


def uuid(versions: str = "0+", *, ignorable: bool = False, tag: int | None = None) -> bytes:
    """16 raw bytes; the default is the zero uuid."""
    return cast(bytes, _field("uuid", versions, None, UNSET, ignorable, tag))


def string(
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: str | None = "",
    ignorable: bool = False,
    tag: int | None = None,
) -> str:
    """UTF-8 text of at most 32767 bytes."""
    return cast(str, _field("string", versions, nullable, default, ignorable, tag))


def blob(
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: bytes | None = b"",
    ignorable: bool = False,
    tag: int | None = None,
) -> bytes:
    """Opaque bytes (the protocol's type `bytes`)."""
    return cast(bytes, _field("bytes", versions, nullable, default, ignorable, tag))


def records(versions: str = "0+", *, nullable: str | None = None) -> memoryview:
    """Record batches: decoded as a view of the frame, never copied."""
    return cast(memoryview, _field("records", versions, nullable, None, False, None))


def struct(
    of: type[T],
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: object = UNSET,
    ignorable: bool = False,
    tag: int | None = None,
) -> T:
    """One nested struct; the default is a struct of defaults, or null with `default=None`."""
    return cast(T, _field("struct", versions, nullable, default, ignorable, tag, struct=cast("type[Schema]", of)))


def array(
    of: Callable[..., T],
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: object = UNSET,
    ignorable: bool = False,
    tag: int | None = None,
) -> list[T]:
    """A list of structs or of primitive values (`array(int32)`); the default is empty, or null with `default=None`."""
    if isinstance(of, type):
        element = Field("struct", version_range("0+"), range(0), UNSET, False, None, struct=cast("type[Schema]", of))
    else:
        element = cast(Field, of())
    return cast("list[T]", _field("array", versions, nullable, default, ignorable, tag, element=element))
