"""Numbers in configuration text, read and written as Java does it: Kafka takes and shows them so."""

from __future__ import annotations

import math
import re
from decimal import Decimal

_BLANKS = "".join(map(chr, range(33)))
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?", re.ASCII)
_HEXADECIMAL = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?", re.ASCII)
_NAMED = {"NaN": math.nan, "Infinity": math.inf}
_PLAIN = (1e-3, 1e7)
"""Numbers within are written without an exponent."""


def trim(text: str) -> str:
    """Without the control characters and spaces at both ends."""
    return text.strip(_BLANKS)


def parse_integer(text: str) -> int:
    """Raises ValueError for what Python alone takes, too, such as `1_000`."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{text!r} is no integer")
    return int(text)


def parse_double(text: str) -> float:
    """Raises ValueError. Numbers beyond the range are infinite or zero."""
    unsigned = text.lstrip("+-") if len(text) > 1 and text[1:2] not in "+-" else text
    if unsigned in _NAMED:
        return -_NAMED[unsigned] if text.startswith("-") else _NAMED[unsigned]
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    if _HEXADECIMAL.fullmatch(text):
        digits, _, exponent = text.lower().partition("p")
        return float.fromhex(f"{digits}p{exponent.rstrip('fd')}")
    raise ValueError(f"{text!r} is no number")


def double_text(value: float) -> str:
    """`0.5`, `1.0E7`, `1.7976931348623157E308`, `NaN`, `-Infinity`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return repr(value)
    number = Decimal(repr(abs(value)))
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{number.adjusted()}"
