"""Compiles the encoder of a (message, version): one Python function that appends pieces to a list.

Fixed-size fields, and the length or count that follows them, are packed by one struct call. Records are appended as
they are and marked, so that `Message.encode_parts` can pass them on without a copy. Values are not checked one by one:
a wrong one makes Python raise, and `diagnosis` then finds it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from network.protocol import primitives
from network.protocol.codegen import Source, literal, present, tagged
from network.protocol.fields import FIXED_FORMATS, UNSET, Field, MessageSchema, Schema

Encoder: TypeAlias = Callable[[Any, list[Any], list[int]], None]

_HEAD = "def encode(m, parts, marks):"


def compile_encoder(message: type[MessageSchema], version: int) -> Encoder:
    """A function `(message, parts, marks)`; see `Message.encode_into`."""
    return _EncoderSource(message, version).build()


class _EncoderSource(Source):
    def __init__(self, message: type[MessageSchema], version: int) -> None:
        super().__init__(message, version)
        self.run: list[tuple[str, str]] = []  # struct formats written next, and their values
        self.out = "parts"
        self.env.update(
            long_string=primitives.long_string,
            varint=primitives.encode_unsigned_varint,
            numbers=primitives.encode_numbers,
            records_size=primitives.records_size,
            encode_tags=primitives.encode_tags,
            no_such_field=primitives.no_such_field,
            check_uuid=primitives.check_uuid,
        )

    def build(self) -> Encoder:
        self.struct("m", self.message, "")
        self.flush()
        if not self.lines:
            self.emit("pass")
        encoder: Encoder = self.compile(_HEAD)
        return encoder

    # fixed-size runs

    def write(self, letter: str, value: str) -> None:
        self.run.append((letter, value))

    def packed(self, run: list[tuple[str, str]]) -> str:
        letters = "".join(letter for letter, _ in run)
        if set(letters) <= {"x"}:
            return repr(bytes(len(letters)))
        packer = self.name("_p")
        self.env[packer] = struct.Struct(">" + letters).pack
        return f"{packer}({', '.join(value for letter, value in run if letter != 'x')})"

    def flush(self, extra: str = "") -> None:
        """Write the run; `extra` are pad bytes that follow it."""
        run = self.run + [("x", "")] * len(extra)
        self.run = []
        if run:
            self.emit(f"{self.out}.append({self.packed(run)})")

    def flush_compact(self, count: str, slow: str) -> None:
        """Write the run and the unsigned varint `count`, which is one byte as a rule; `slow` encodes it otherwise."""
        run, self.run = self.run, []
        with self.block(f"if {count} < 128:"):
            self.emit(f"{self.out}.append({self.packed([*run, ('B', count)])})")
        with self.block("else:"):
            if run:
                self.emit(f"{self.out}.append({self.packed(run)})")
            self.emit(f"{self.out}.append({slow}({count}))")

    # structs

    def struct(self, var: str, cls: type[Schema], path: str) -> None:
        fields = present(cls, self.version)
        known = tagged(cls, self.version, self.flexible)
        for field in cls.FIELDS:
            if field not in fields and field not in known and not field.ignorable:
                self.refuse_unless_default(var, field, path)
        for field in fields:
            self.field(f"{var}.{field.slot}", field, path + field.name)
        if not self.flexible:
            return
        conditions = [f"{var}.unknown_tags is None"]
        conditions += [f"not ({self.is_set(f'{var}.{each.slot}', each)})" for each in known]
        run = list(self.run)
        with self.block(f"if {' and '.join(conditions)}:"):
            self.flush(extra="x")
        self.run = run
        with self.block("else:"):
            self.flush()
            self.tags(var, known, path)

    def is_set(self, value: str, field: Field) -> str:
        """A condition: the field has a value that is not its default."""
        if field.lazy:
            assert field.struct is not None
            return f"{value} is not None and {value} != {self.constant('D', _default_struct(field.struct))}"
        if field.default is None:
            return f"{value} is not None"
        if field.default is UNSET or not field.default:
            return f"({value} is None or {value})" if field.nullable else value
        return f"{value} != {literal(field.default)}"

    def refuse_unless_default(self, var: str, field: Field, path: str) -> None:
        value = f"{var}.{field.slot}"
        with self.block(f"if {self.is_set(value, field)}:"):
            name, message = path + field.name, self.message.__name__
            self.emit(f"raise no_such_field({message!r}, {self.version}, {name!r}, {var}.{field.name})")

    def tags(self, var: str, known: list[Field], path: str) -> None:
        """The tagged-field section when there is something in it."""
        entries = self.name("tags")
        self.emit(f"{entries} = []")
        out = self.out
        for field in known:
            with self.block(f"if {self.is_set(f'{var}.{field.slot}', field)}:"):
                self.out = self.name("tag")
                self.emit(f"{self.out} = []")
                self.field(f"{var}.{field.slot}", field, path + field.name)
                self.flush()
                self.emit(f"{entries}.append(({field.tag}, b''.join({self.out})))")
        self.out = out
        self.emit(f"{out}.append(encode_tags({entries}, {var}.unknown_tags))")

    # fields

    def field(self, value: str, field: Field, path: str) -> None:
        nullable = self.version in field.nullable
        if field.kind == "uuid":
            self.write("16s", f"check_uuid({value})")
        elif field.kind in FIXED_FORMATS:
            self.write(FIXED_FORMATS[field.kind], value)
        elif field.kind == "struct":
            self.nested(value, field, nullable, path)
        elif field.kind == "array":
            self.array(value, field, nullable, path)
        else:
            self.sized(value, field, nullable, path)

    def nested(self, value: str, field: Field, nullable: bool, path: str) -> None:
        assert field.struct is not None
        inner = self.name("o")
        self.emit(f"{inner} = {value}")
        if not nullable:
            if field.lazy:
                with self.block(f"if {inner} is None:"):
                    self.emit(f"{inner} = {self.constant('D', _default_struct(field.struct))}")
            self.struct(inner, field.struct, path + ".")
            self.flush()
            return
        self.flush()
        with self.block(f"if {inner} is None:"):
            self.emit(f"{self.out}.append(b'\\xff')")
        with self.block("else:"):
            self.write("b", "1")
            self.struct(inner, field.struct, path + ".")
            self.flush()

    def length(self, count: str, narrow: bool) -> None:
        """Write `count`, which is the length + 1 in flexible versions."""
        if self.flexible:
            self.flush_compact(count, "long_string" if narrow else "varint")
        else:
            self.write("h" if narrow else "i", count)
            self.flush()

    @contextmanager
    def unless_null(self, value: str, nullable: bool, narrow: bool) -> Iterator[None]:
        """Write the null length if `value` is None; what the body emits is for any other value."""
        if not nullable:
            yield
            return
        run = list(self.run)
        with self.block(f"if {value} is None:"):
            if self.flexible:
                self.write("x", "")
            else:
                self.write("h" if narrow else "i", "-1")
            self.flush()
        self.run = run
        with self.block("else:"):
            yield

    def sized(self, value: str, field: Field, nullable: bool, path: str) -> None:
        """string, bytes, records"""
        content, count = self.name("s"), self.name("n")
        size = f"records_size({content})" if field.kind == "records" else f"len({content})"
        self.emit(f"{content} = {value}")
        with self.unless_null(content, nullable, field.kind == "string"):
            if field.kind == "string":
                self.emit(f"{content} = {content}.encode()")
            elif field.kind == "bytes":
                with self.block(f"if type({content}) is not bytes:"):
                    self.emit(f"{content} = bytes(memoryview({content}))")
            self.emit(f"{count} = {size}{' + 1' if self.flexible else ''}")
            self.length(count, field.kind == "string")
            if field.kind == "records":
                self.emit(f"marks.append(len({self.out}))")
            self.emit(f"{self.out}.append({content})")

    def array(self, value: str, field: Field, nullable: bool, path: str) -> None:
        assert field.element is not None
        values, count = self.name("a"), self.name("n")
        self.emit(f"{values} = {value}")
        with self.unless_null(values, nullable, narrow=False):
            self.emit(f"{count} = len({values}){' + 1' if self.flexible else ''}")
            self.length(count, narrow=False)
            self.elements(values, count, field.element, path)

    def elements(self, values: str, count: str, element: Field, path: str) -> None:
        letter = FIXED_FORMATS.get(element.kind)
        if letter is not None and letter != "16s":
            with self.block(f"if {values}:"):
                size = f"{count} - 1" if self.flexible else count
                writers = self.constant("numbers", primitives.NUMBER_WRITERS[letter])
                few = f"{writers}[{size}](*{values})"
                self.emit(f"{self.out}.append({few} if {size} < {primitives.FEW} else numbers({values}, {letter!r}))")
            return
        item = self.name("o")
        with self.block(f"for {item} in {values}:"):
            if element.kind == "struct":
                assert element.struct is not None
                self.struct(item, element.struct, path + ".")
            else:
                self.field(item, element, path)
            self.flush()


_DEFAULTS: dict[type[Schema], Schema] = {}


def _default_struct(cls: type[Schema]) -> Schema:
    """A shared instance of defaults, only ever compared with."""
    if cls not in _DEFAULTS:
        _DEFAULTS[cls] = cls()
    return _DEFAULTS[cls]
