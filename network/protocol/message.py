"""Base classes of messages: `Struct` (nested), `Message` (has versions), `Request`, `Response`, `StoredPayload`.

A class body lists fields (see `fields`); the metaclass turns them into slots, a keyword constructor in which every
field has a default, equality and repr. Encode and decode functions are compiled the first time that a (message,
version) is used.
"""

from __future__ import annotations

import struct as _struct
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias, cast, dataclass_transform

from network.protocol.decoding import Decoder, compile_decoder
from network.protocol.diagnosis import explain
from network.protocol.encoding import Encoder, compile_encoder
from network.protocol.errors import ProtocolError
from network.protocol.fields import NEVER, UNSET, Buffer, Field
from network.protocol.primitives import BUFFERS, SEQUENCES, as_buffer

if TYPE_CHECKING:
    from network.server.file_range import FileRange

    Part: TypeAlias = bytes | memoryview | FileRange

_BAD_BYTES = (_struct.error, IndexError, UnicodeDecodeError)
_BAD_VALUES = (_struct.error, AttributeError, TypeError, UnicodeEncodeError, OverflowError)


@dataclass_transform(kw_only_default=True, eq_default=True)
class StructMeta(type):
    """Turns the declared fields of a class body into slots and a constructor."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> StructMeta:
        fields = tuple(value.named(key) for key, value in namespace.items() if isinstance(value, Field))
        for field in fields:
            del namespace[field.name]
            if field.lazy:
                namespace[field.name] = _lazy_property(field)
        inherited = any(isinstance(base, StructMeta) for base in bases)
        if not inherited:
            del namespace["unknown_tags"]
        namespace["__slots__"] = tuple(field.slot for field in fields) + (() if inherited else ("unknown_tags",))
        namespace["FIELDS"] = fields
        namespace["__init__"] = _first_init
        return super().__new__(mcs, name, bases, namespace, **options)


def _lazy_property(field: Field) -> property:
    """A struct field that is made of defaults when it is first looked at, so that absent ones cost nothing."""
    slot, cls = field.slot, field.struct
    assert cls is not None

    def get(self: Any) -> Any:
        value = getattr(self, slot)
        if value is None:
            value = cls()
            setattr(self, slot, value)
        return value

    def put(self: Any, value: Any) -> None:
        setattr(self, slot, value)

    return property(get, put)


def _first_init(self: Any, *args: Any, **kwargs: Any) -> None:
    """Stands in for the constructor until a class is first instantiated."""
    cls = type(self)
    cls.__init__ = _compile_init(cls)
    cls.__init__(self, *args, **kwargs)


def _compile_init(cls: type[Struct]) -> Any:
    env: dict[str, Any] = {}
    parameters, body = ["self"], ["self.unknown_tags = unknown_tags"]
    for field in cls.FIELDS:
        name = field.name
        if field.kind == "array" and field.default is UNSET:
            env["_unset"] = UNSET
            parameters.append(f"{name}=_unset")
            body.append(f"self.{name} = [] if {name} is _unset else {name}")
        else:
            env[f"_d_{name}"] = None if field.lazy else field.default
            parameters.append(f"{name}=_d_{name}")
            body.append(f"self.{field.slot} = {name}")
    parameters.append("unknown_tags=None")
    source = f"def __init__({', '.join(parameters)}):\n    " + "\n    ".join(body) + "\n"
    exec(compile(source, f"<{cls.__name__} constructor>", "exec"), env)
    return env["__init__"]


class Struct(metaclass=StructMeta):
    """Named fields that are encoded one after the other."""

    FIELDS: ClassVar[tuple[Field, ...]]

    unknown_tags: dict[int, bytes] | None = None
    """Tagged fields that this version does not know, by tag; kept so that re-encoding loses nothing."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        for field in self.FIELDS:
            if getattr(self, field.name) != getattr(other, field.name):
                return False
        return (self.unknown_tags or None) == (other.unknown_tags or None)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [f"{field.name}={_shown(getattr(self, field.slot))}" for field in self.FIELDS]
        if self.unknown_tags:
            shown.append(f"unknown_tags={self.unknown_tags!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if isinstance(value, memoryview):
        return f"<{value.nbytes} bytes>"
    return repr(value)


class Message(Struct):
    """A struct with versions: a request, a response, or a stored payload."""

    API_KEY: ClassVar[int] = -1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_VERSION: ClassVar[int] = NEVER
    """The first version with compact lengths and tagged fields; NEVER if there is none."""

    _decoders: ClassVar[dict[int, Decoder]]
    _encoders: ClassVar[dict[int, Encoder]]

    def __init_subclass__(
        cls, *, key: int = -1, versions: tuple[int, int] = (0, 0), flexible: int = NEVER, **options: Any
    ) -> None:
        super().__init_subclass__(**options)
        cls.API_KEY = key
        cls.MIN_VERSION, cls.MAX_VERSION = versions
        cls.FLEXIBLE_VERSION = flexible
        cls._decoders = {}
        cls._encoders = {}

    @classmethod
    def decode(cls, data: Buffer, version: int, offset: int = 0) -> Self:
        """Decode `data[offset:]`, which the message must fill to the last byte; raises ProtocolError."""
        decoder = cls._decoders.get(version) or cls._compile_decoder(version)
        size = len(data)
        try:
            message, end = decoder(data, offset, size)
        except _BAD_BYTES as error:
            raise ProtocolError(f"{cls.__name__} v{version} is malformed: {error}") from error
        if end != size:
            raise ProtocolError(f"{cls.__name__} v{version} ends at byte {end} of {size}")
        return cast(Self, message)

    @classmethod
    def decode_from(cls, data: Buffer, offset: int, version: int) -> tuple[Self, int]:
        """Decode at `offset`; returns the message and where it ends. Raises ProtocolError."""
        decoder = cls._decoders.get(version) or cls._compile_decoder(version)
        try:
            return decoder(data, offset, len(data))
        except _BAD_BYTES as error:
            raise ProtocolError(f"{cls.__name__} v{version} is malformed: {error}") from error

    def encode(self, version: int) -> bytes:
        """The whole message as bytes; file ranges are read, not released. Raises ProtocolError for a value that has no
        encoding in `version`."""
        parts: list[Any] = []
        marks: list[int] = []
        self.encode_into(parts, marks, version)
        if marks:
            _read_marked(parts, marks)
        return b"".join(parts)

    def encode_parts(self, version: int) -> list[Part]:
        """The message as a gather list: record buffers and file ranges as they are, the bytes between them joined."""
        parts: list[Any] = []
        marks: list[int] = []
        self.encode_into(parts, marks, version)
        return gather(parts, marks)

    def encode_into(self, parts: list[Any], marks: list[int], version: int) -> None:
        """Append pieces to `parts`, and to `marks` the indexes of those that hold records."""
        encoder = self._encoders.get(version) or self._compile_encoder(version)
        try:
            encoder(self, parts, marks)
        except _BAD_VALUES as error:
            reason = explain(self, version) or str(error)
            raise ProtocolError(f"{type(self).__name__} v{version} cannot be encoded: {reason}") from error

    @classmethod
    def _check_version(cls, version: int) -> None:
        if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
            raise ProtocolError(f"{cls.__name__} has no version {version}")

    @classmethod
    def _compile_decoder(cls, version: int) -> Decoder:
        cls._check_version(version)
        decoder = cls._decoders[version] = compile_decoder(cls, version)
        return decoder

    @classmethod
    def _compile_encoder(cls, version: int) -> Encoder:
        cls._check_version(version)
        encoder = cls._encoders[version] = compile_encoder(cls, version)
        return encoder


class Request(Message):
    """What a client, or another broker, asks."""


class Response(Message):
    """The answer to a request of the same key and version."""


class StoredPayload(Message):
    """The key or value of a record that brokers or clients store: an int16 version comes first."""

    def encode_versioned(self, version: int | None = None) -> bytes:
        """Version prefix and body; the newest version unless one is named."""
        number = self.MAX_VERSION if version is None else version
        return number.to_bytes(2, "big", signed=True) + self.encode(number)

    @classmethod
    def decode_versioned(cls, data: Buffer) -> Self:
        """Read the prefix, then the body in that version. Raises ProtocolError, also for an unknown version."""
        return cls.decode(data, payload_version(data), 2)


def payload_version(data: Buffer) -> int:
    """The version in front of a stored payload; keys of different types differ by it."""
    if len(data) < 2:
        raise ProtocolError(f"a stored payload of {len(data)} bytes has no version")
    return int.from_bytes(data[:2], "big", signed=True)


def _read_marked(parts: list[Any], marks: list[int]) -> None:
    """Replace records that are no buffers by their bytes."""
    for index in marks:
        if not isinstance(parts[index], BUFFERS):
            parts[index] = as_buffer(parts[index])


COPY_BELOW: Final = 4096
"""Record buffers up to this many bytes are copied into the piece around them: cheaper than a piece of their own."""


def gather(parts: list[Any], marks: list[int]) -> list[Part]:
    """Join the pieces between records; records (at the indexes `marks`) stay as they are unless they are small."""
    out: list[Part] = []
    start = 0
    for index in marks:
        part = parts[index]
        if isinstance(part, SEQUENCES):
            pieces = part
        elif isinstance(part, BUFFERS) and len(part) <= COPY_BELOW:
            continue
        else:
            pieces = (part,)
        if start < index:
            out.append(b"".join(parts[start:index]))
        out.extend(memoryview(piece) if isinstance(piece, bytearray) else piece for piece in pieces)
        start = index + 1
    if start < len(parts):
        out.append(b"".join(parts[start:]))
    return out
