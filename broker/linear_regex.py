"""Regular expressions that clients choose and the broker evaluates, in RE2's syntax and with its bound.

Matching must take linear time: Python's own engine can be kept busy for hours by a short pattern. google-re2 is loaded
with the first expression. Where it is not installed every expression is refused, for nothing else here has the bound.
Its module has not declared that it can do without the interpreter lock, so on a free-threaded interpreter loading it
brings the lock back, as a warning says, unless that was started with PYTHON_GIL=0.
"""

from __future__ import annotations

from typing import Any

MAX_CHARS = 4_096
"""A longer expression is refused."""
_PROGRAM_BYTES = 1 << 20


class LinearRegexError(ValueError):
    """What RE2 does not take, or cannot be asked."""


class NoLinearRegexError(LinearRegexError):
    """RE2 is not there."""


def compiled(expression: str) -> Any:
    """An object with `fullmatch`. Raises LinearRegexError."""
    if len(expression) > MAX_CHARS:
        raise LinearRegexError(f"the pattern is longer than {MAX_CHARS} characters")
    try:
        import re2
    except ImportError:
        raise NoLinearRegexError(
            "this broker has no google-re2 to evaluate regular expressions with: install it for them"
        ) from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PROGRAM_BYTES
    try:
        return re2.compile(expression, options=options)
    except re2.error as error:
        raise LinearRegexError(f"{expression!r} is no regular expression: {error}") from None
