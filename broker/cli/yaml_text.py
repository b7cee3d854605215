"""Writes plain data as YAML, for ``--output yaml``.

Only this direction is needed, and only for what JSON has too, so it is these few lines and not a library. A test reads
what they write with PyYAML.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
# Words that some reader of YAML takes for something else than a text.
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"}


def to_yaml(value: object) -> str:
    """A document of block style that ends with a line break; dicts have string keys."""
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _entry(f"{_scalar(str(key))}:", item)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            first, *rest = _lines(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _entry(head: str, item: object) -> Iterator[str]:
    if isinstance(item, dict | list | tuple) and item:
        yield head
        yield from (f"  {line}" for line in _lines(item))
    else:
        yield f"{head} {_scalar(item)}"


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    text = str(value)
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return f'"{"".join(map(_character, text))}"'


def _number(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    if e and "." not in mantissa:  # YAML 1.1 reads 1e-07 as a text
        mantissa += ".0"
    return f"{mantissa}{e}{exponent if not e or exponent[0] in '+-' else '+' + exponent}"


def _character(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
