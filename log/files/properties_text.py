"""Java properties text: `server.properties`, and the small files of a data directory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile(r"\r\n|\r|\n")
_TO_ESCAPE = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Read `key=value`, `key: value` or `key value` lines; `#` and `!` start comments, a backslash continues a line.

    Later lines win. Raises `ValueError` for a malformed unicode escape.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    # Not `splitlines`, which ends lines at other characters too.
    for raw in _LINE_END.split(text):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        line = pending + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
            continue
        pending = ""
        yield line
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    escaped = False
    for index, character in enumerate(line):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "=: \t\f":
            rest = line[index:].lstrip(" \t\f")
            if rest[:1] in ("=", ":"):
                rest = rest[1:].lstrip(" \t\f")
            return line[:index], rest
    return line, ""


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position >= len(text):
            out.append(character)
            continue
        character = text[position]
        position += 1
        if character == "u":
            digits = text[position : position + 4]
            if len(digits) < 4:
                raise ValueError(f"cut-off unicode escape in {text!r}")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(character, character))
    # Two escapes of a surrogate pair are one character.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def format_properties(values: Mapping[str, str], comment: str = "") -> str:
    """The text with one comment line (`comment`, for Kafka a date) behind an empty one."""
    lines = ["#", f"#{comment}"]
    lines += [f"{_escape(key, key=True)}={_escape(value, key=False)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _escape(text: str, *, key: bool) -> str:
    out: list[str] = []
    for index, character in enumerate(text):
        if character in _TO_ESCAPE:
            out.append(_TO_ESCAPE[character])
        elif character in "\\=:#!" or (character == " " and (key or index == 0)):
            out.append("\\" + character)
        elif " " <= character <= "~":
            out.append(character)
        else:
            units = character.encode("utf-16-be")
            out += [f"\\u{units[i] << 8 | units[i + 1]:04X}" for i in range(0, len(units), 2)]
    return "".join(out)
