"""What the two compilers share: source lines with indentation, names for objects, minimum sizes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from network.protocol.fields import FIXED_FORMATS, Field, MessageSchema, Schema

FIXED_SIZES: Final = {"?": 1, "b": 1, "B": 1, "x": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}


class Source:
    """Lines of a function being written, and the globals that they use."""

    def __init__(self, message: type[MessageSchema], version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = version >= message.FLEXIBLE_VERSION
        self.lines: list[str] = []
        self.env: dict[str, Any] = {}
        self._depth = 1
        self._names = 0
        self._known: dict[int, str] = {}

    def emit(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.emit(head)
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, prefix: str) -> str:
        """A local name that is used nowhere else."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, prefix: str, value: Any) -> str:
        """The global name of an object; the same object has one name."""
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = self.name(f"_{prefix}")
            self.env[known] = value
        return known

    def compile(self, head: str) -> Any:
        source = "\n".join([head, *self.lines]) + "\n"
        title = f"<{self.message.__name__} v{self.version} {head.split('(')[0].removeprefix('def ')}>"
        exec(compile(source, title, "exec"), self.env)
        return self.env[head.split("(")[0].removeprefix("def ")]


def literal(value: Any) -> str:
    return repr(value)


def present(struct: type[Schema], version: int) -> list[Field]:
    """The untagged fields of `struct` in `version`, in wire order."""
    return [field for field in struct.FIELDS if field.tag is None and version in field.versions]


def tagged(struct: type[Schema], version: int, flexible: bool) -> list[Field]:
    """The tagged fields that `struct` knows in `version`, by tag."""
    if not flexible:
        return []
    known = [field for field in struct.FIELDS if field.tag is not None and version in field.versions]
    return sorted(known, key=lambda field: field.tag or 0)


def minimum_size(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes that a value of `field` takes on the wire."""
    if field.kind in FIXED_FORMATS:
        return FIXED_SIZES[FIXED_FORMATS[field.kind]]
    if field.kind == "struct":
        assert field.struct is not None
        if version in field.nullable:
            return 1
        inner = sum(minimum_size(each, version, flexible) for each in present(field.struct, version))
        return inner + (1 if flexible else 0)
    if flexible:
        return 1
    return 2 if field.kind == "string" else 4


def uses_records(struct: type[Schema], version: int) -> bool:
    """Whether the struct, or one inside it, has a records field in `version`."""
    for field in struct.FIELDS:
        if version not in field.versions:
            continue
        inner = field.struct or (field.element.struct if field.element else None)
        if field.kind == "records" or (inner is not None and uses_records(inner, version)):
            return True
    return False
