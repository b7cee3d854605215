"""Compiles the decoder of a (message, version): one Python function without calls per field.

The function reads runs of fixed-size fields, with the length or count that follows them, by one struct call; nested
structs are written out in place. Every length is compared with the end of the frame before it is used, an array's
count with the bytes that its smallest elements would need, so a frame cannot make the decoder allocate more than it
brought along.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, partial
from itertools import repeat
from typing import Any, Final, TypeAlias

from network.protocol import primitives
from network.protocol.codegen import FIXED_SIZES, Source, literal, minimum_size, present, tagged, uses_records
from network.protocol.errors import ProtocolError
from network.protocol.fields import FIXED_FORMATS, UNSET, Field, MessageSchema, Schema

Decoder: TypeAlias = Callable[[Any, int, int], tuple[Any, int]]

_HEAD = "def decode(data, p, end):"

COPY_BELOW: Final = 8192
"""Messages with records are decoded from a copy of the frame up to this size: reading bytes is cheaper than reading a
view. The records themselves are views of the original in any case."""


def compile_decoder(message: type[MessageSchema], version: int) -> Decoder:
    """A function `(data, position, end) -> (message, position after it)`."""
    if not uses_records(message, version):
        return _DecoderSource(message, version).build("if type(data) is not bytes: data = bytes(data)")
    large = _DecoderSource(message, version, views=True)
    small = _DecoderSource(message, version)
    small.env["large"] = large.build("view = data")
    return small.build(
        "view = data if type(data) is memoryview else memoryview(data)",
        f"if end - p > {COPY_BELOW}: return large(view, p, end)",
        "if type(data) is not bytes: data = view.tobytes()",
    )


class _DecoderSource(Source):
    def __init__(self, message: type[MessageSchema], version: int, views: bool = False) -> None:
        super().__init__(message, version)
        self.views = views  # whether data is a memoryview, else bytes
        self.run: list[tuple[str, str]] = []  # struct formats read next, and what takes their values
        self.env.update(
            repeat=repeat,
            finish=primitives.finish_varint,
            finish_string=primitives.finish_string_length,
            compact_length=primitives.compact_length,
            compact_string_length=primitives.compact_string_length,
            too_long=primitives.too_long,
            bad_length=primitives.bad_length,
            unknown=primitives.decode_unknown_tags,
            tag_header=primitives.tag_header,
            numbers=primitives.decode_numbers,
            ProtocolError=ProtocolError,
        )

    def build(self, *opening: str) -> Decoder:
        for line in opening:
            self.emit(line)
        self.struct("m", self.message, self.message.__name__)
        self.flush()
        with self.block("if p > end:"):
            self.emit("raise IndexError('it ends too early')")
        self.emit("return m, p")
        decoder: Decoder = self.compile(_HEAD)
        return decoder

    # fixed-size runs

    def read(self, letter: str, target: str) -> None:
        self.run.append((letter, target))

    def flush(self) -> None:
        if not self.run:
            return
        letters = "".join(letter for letter, _ in self.run)
        targets = [target for _, target in self.run]
        size = sum(FIXED_SIZES[letter] for letter, _ in self.run)
        self.run = []
        if letters == "B":
            self.emit(f"{targets[0]} = data[p]")
        else:
            reader = self.name("_u")
            self.env[reader] = struct.Struct(">" + letters).unpack_from
            self.emit(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {reader}(data, p)")
        self.emit(f"p += {size}")

    # structs

    def struct(self, var: str, cls: type[Schema], path: str) -> None:
        self.emit(f"{var} = {self.constant('new', _blank(cls))}()")
        fields = present(cls, self.version)
        known = tagged(cls, self.version, self.flexible)
        for field in cls.FIELDS:
            if field not in fields:
                self.emit(f"{var}.{field.slot} = {self.default(field)}")
        for field in fields:
            self.field(f"{var}.{field.slot}", field, f"{path}.{field.name}")
        if not self.flexible:
            self.emit(f"{var}.unknown_tags = None")
            return
        count = self.name("t")
        self.read("B", count)
        self.flush()
        if known:
            self.emit(f"{var}.unknown_tags = None")
            with self.block(f"if {count}:"):
                self.tags(var, known, count, path)
        else:
            with self.block(f"if {count}:"):
                self.emit(f"{var}.unknown_tags, p = unknown(data, p, {count}, end)")
            with self.block("else:"):
                self.emit(f"{var}.unknown_tags = None")

    def default(self, field: Field) -> str:
        if field.lazy:
            return "None"
        if field.default is UNSET:
            return "[]"
        if isinstance(field.default, bytes) and field.default:
            return self.constant("D", field.default)
        return literal(field.default)

    def tags(self, var: str, known: list[Field], count: str, path: str) -> None:
        tag, stop = self.name("tag"), self.name("stop")
        with self.block(f"if {count} > 127:"):
            self.emit(f"{count}, p = finish(data, p, {count})")
        with self.block(f"for _ in repeat(None, {count}):"):
            self.emit(f"{tag}, p, {stop} = tag_header(data, p, end)")
            word = "if"
            for field in known:
                with self.block(f"{word} {tag} == {field.tag}:"):
                    self.field(f"{var}.{field.slot}", field, f"{path}.{field.name}")
                    self.flush()
                    with self.block(f"if p != {stop}:"):
                        self.emit(f"raise ProtocolError('{path}.{field.name} disagrees with its size')")
                word = "elif"
            with self.block("else:"):
                with self.block(f"if {var}.unknown_tags is None:"):
                    self.emit(f"{var}.unknown_tags = {{}}")
                self.emit(f"{var}.unknown_tags[{tag}] = bytes(data[p:{stop}])")
                self.emit(f"p = {stop}")

    # fields

    def field(self, target: str, field: Field, path: str) -> None:
        nullable = self.version in field.nullable
        if field.kind in FIXED_FORMATS:
            self.read(FIXED_FORMATS[field.kind], target)
        elif field.kind == "struct":
            self.nested(target, field, nullable, path)
        elif field.kind == "array":
            self.array(target, field, nullable, path)
        else:
            self.sized(target, field, nullable, path)

    def nested(self, target: str, field: Field, nullable: bool, path: str) -> None:
        assert field.struct is not None
        inner = self.name("o")
        if not nullable:
            self.flush()
            self.struct(inner, field.struct, path)
            self.emit(f"{target} = {inner}")
            return
        marker = self.name("n")
        self.read("b", marker)
        self.flush()
        # A tagged field has an unsigned marker, of which 0 is null; elsewhere it is signed, and null -1.
        with self.block(f"if {marker} < {0 if field.tag is None else 1}:"):
            self.emit(f"{target} = None")
        with self.block("else:"):
            self.struct(inner, field.struct, path)
            self.flush()
            self.emit(f"{target} = {inner}")

    def length(self, nullable: bool, narrow: bool, path: str) -> str:
        """Read a length or count into a name: -1 is null (only if nullable), anything below is refused."""
        count = self.name("n")
        if not self.flexible:
            self.read("h" if narrow else "i", count)
            self.flush()
            with self.block(f"if {count} < {-1 if nullable else 0}:"):
                self.emit(f"raise bad_length({path!r}, {count})")
            return count
        self.read("B", count)
        self.flush()
        if nullable:
            with self.block(f"if {count} > 127:"):
                self.emit(f"{count}, p = {'finish_string' if narrow else 'finish'}(data, p, {count})")
        else:
            reader = "compact_string_length" if narrow else "compact_length"
            with self.block(f"if not 0 < {count} < 128:"):
                self.emit(f"{count}, p = {reader}(data, p, {count}, {path!r})")
        self.emit(f"{count} -= 1")
        return count

    def sized(self, target: str, field: Field, nullable: bool, path: str) -> None:
        """string, bytes, records"""
        count = self.length(nullable, field.kind == "string", path)
        if not nullable:
            self.content(target, field.kind, count, path)
            return
        with self.block(f"if {count} < 0:"):
            self.emit(f"{target} = None")
        with self.block("else:"):
            self.content(target, field.kind, count, path)

    def content(self, target: str, kind: str, count: str, path: str) -> None:
        stop = self.name("q")
        self.emit(f"{stop} = p + {count}")
        with self.block(f"if {stop} > end:"):
            self.emit(f"raise too_long({path!r}, {count}, end - p)")
        if kind == "string":
            if self.views:
                self.emit(f"{target} = str(data[p:{stop}], 'utf-8')")
            else:
                self.emit(f"{target} = data[p:{stop}].decode()")
        elif kind == "records":
            self.emit(f"{target} = view[p:{stop}]")
        elif self.views:
            self.emit(f"{target} = bytes(data[p:{stop}])")
        else:
            self.emit(f"{target} = data[p:{stop}]")
        self.emit(f"p = {stop}")

    # arrays

    def array(self, target: str, field: Field, nullable: bool, path: str) -> None:
        assert field.element is not None
        count = self.length(nullable, False, path)
        if not nullable:
            self.elements(target, field.element, count, path)
            return
        with self.block(f"if {count} < 0:"):
            self.emit(f"{target} = None")
        with self.block("else:"):
            self.elements(target, field.element, count, path)
            self.flush()

    def elements(self, target: str, element: Field, count: str, path: str) -> None:
        smallest = minimum_size(element, self.version, self.flexible)
        needed = count if smallest == 1 else f"{count} * {smallest}"
        with self.block(f"if {needed} > end - p:"):
            self.emit(f"raise too_long({path!r}, {count}, end - p)")
        letter = FIXED_FORMATS.get(element.kind)
        if letter is not None and letter != "16s":
            readers = self.constant("numbers", primitives.NUMBER_READERS[letter])
            many = f"numbers(data, p, {count}, {letter!r})"
            self.emit(f"{target} = list({readers}[{count}](data, p)) if {count} < {primitives.FEW} else {many}")
            self.emit(f"p += {needed}")
            return
        values, item = self.name("a"), self.name("o")
        self.emit(f"{target} = {values} = []")
        with self.block(f"for _ in repeat(None, {count}):"):
            if element.kind == "struct":
                assert element.struct is not None
                self.struct(item, element.struct, path)
                self.flush()
            else:
                self.field(item, element, path)
                self.flush()
            self.emit(f"{values}.append({item})")


@cache
def _blank(cls: type[Schema]) -> Any:
    """Makes an instance with empty slots, faster than a call of `object.__new__` would."""
    return partial(object.__new__, cls)
