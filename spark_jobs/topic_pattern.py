"""``subscribePattern`` is a Java regular expression; this makes a Python one of it that accepts the same topic names.

What the two languages write alike stays as it is. Java's own classes (``\\p{Alnum}``, ``[a-z&&[^q]]``) become the ASCII
characters in them, as names of topics have no others. What can't be translated is refused by its name.
"""

from __future__ import annotations

import functools
import re
import unicodedata

_ASCII = frozenset(map(chr, range(128)))
_DIGITS = frozenset("0123456789")
_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz")
_UPPER = frozenset(c.upper() for c in _LOWER)
_WORD = _DIGITS | _LOWER | _UPPER | {"_"}
_BLANK = frozenset(" \t")
_SPACE = frozenset(" \t\n\x0b\f\r")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_GRAPH = _DIGITS | _LOWER | _UPPER | _PUNCTUATION
_CONTROL = frozenset(map(chr, [*range(32), 127]))

# POSIX classes, Java's own and the binary properties, as Java names them after \p.
_NAMED = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": _ASCII,
    "Alpha": _LOWER | _UPPER,
    "Digit": _DIGITS,
    "Alnum": _DIGITS | _LOWER | _UPPER,
    "Punct": _PUNCTUATION,
    "Graph": _GRAPH,
    "Print": _GRAPH | {" "},
    "Blank": _BLANK,
    "Cntrl": _CONTROL,
    "XDigit": _DIGITS | frozenset("abcdefABCDEF"),
    "Space": _SPACE,
    "javaLowerCase": _LOWER,
    "javaUpperCase": _UPPER,
    "javaWhitespace": _SPACE | frozenset("\x1c\x1d\x1e\x1f"),
    "javaLetter": _LOWER | _UPPER,
    "javaDigit": _DIGITS,
    "javaLetterOrDigit": _DIGITS | _LOWER | _UPPER,
    "javaAlphabetic": _LOWER | _UPPER,
    "IsAlphabetic": _LOWER | _UPPER,
    "IsLetter": _LOWER | _UPPER,
    "IsDigit": _DIGITS,
    "IsLowercase": _LOWER,
    "IsUppercase": _UPPER,
    "IsLatin": _LOWER | _UPPER,
    "InBasicLatin": _ASCII,
}
_LETTERED = {
    "d": _DIGITS,
    "D": _ASCII - _DIGITS,
    "w": _WORD,
    "W": _ASCII - _WORD,
    "s": _SPACE,
    "S": _ASCII - _SPACE,
    "h": _BLANK,
    "H": _ASCII - _BLANK,
    "v": frozenset("\n\x0b\f\r"),
    "V": _ASCII - frozenset("\n\x0b\f\r"),
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_FLAGS = frozenset("imsx")


class PatternError(ValueError):
    """A pattern is no Java regular expression, or has something that can't be translated."""


@functools.lru_cache(maxsize=100)
def compile_java(pattern: str) -> re.Pattern[str]:
    """The Python pattern for ``fullmatch`` on a topic's name. Raises PatternError."""
    translated = _Translation(pattern).result()
    try:
        return re.compile(translated, re.ASCII)
    except re.error as error:
        raise PatternError(str(error)) from None


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._ignores_case = re.search(r"\(\?[a-zA-Z]*i", pattern) is not None

    def result(self) -> str:
        """The pattern in Python's language."""
        parts = []
        while self._at < len(self._text):
            parts.append(self._next())
        return "".join(parts)

    def _next(self) -> str:
        char = self._take()
        if char == "[":
            return self._class()
        if char == "(" and self._peek("?"):
            return self._group()
        if char == "\\":
            return self._escape()
        return char

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise PatternError("it ends in the middle")
        self._at += 1
        return self._text[self._at - 1]

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _until(self, end: str) -> str:
        stop = self._text.find(end, self._at)
        if stop < 0:
            raise PatternError(f"{end!r} is missing")
        found, self._at = self._text[self._at : stop], stop + len(end)
        return found

    def _group(self) -> str:
        """After ``(``: what may follow ``?``."""
        self._at += 1
        if self._peek("<") and not self._peek("<=") and not self._peek("<!"):
            self._at += 1
            return f"(?P<{self._until('>')}>"
        flags = re.compile(r"([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])").match(self._text, self._at)
        if flags is None:
            return "(?"  # look-around, atomic and plain groups are written alike
        wrong = (set(flags[1]) | set(flags[2] or "")) - _FLAGS
        if wrong:
            raise PatternError(f"the flag (?{min(wrong)}) can't be translated")
        if flags[3] == ")" and self._at > 2:
            raise PatternError(f"flags in the middle, (?{flags[0]}, can't be translated: put them first")
        self._at = flags.end()
        if flags[3] == ")" and flags[2] is not None:
            return ""  # at the start there is nothing to turn off
        return f"(?{flags[0]}"

    def _escape(self) -> str:
        """After a backslash outside of a class."""
        char = self._take()
        if char == "Q":
            stop = self._text.find("\\E", self._at)
            quoted = self._text[self._at :] if stop < 0 else self._text[self._at : stop]
            self._at = len(self._text) if stop < 0 else stop + 2
            return re.escape(quoted)
        if char == "k":
            if self._take() != "<":
                raise PatternError("\\k needs a group's name: \\k<name>")
            return f"(?P={self._until('>')})"
        if char in "zZ":
            return "\\Z"  # a name has no line end at its end
        if char in "AbB123456789dDwWsS" or not char.isalnum():
            return f"\\{char}"
        if char in "GXRN":
            raise PatternError(f"\\{char} can't be translated")
        self._at -= 1
        return self._set(self._any_case(self._escaped_set()), negated=False)

    def _escaped_set(self) -> frozenset[str]:
        """The characters that an escape stands for, after its backslash."""
        char = self._take()
        if char in _LETTERED:
            return _LETTERED[char]
        if char in "pP":
            name = self._until("}") if self._peek("{") and self._take() else self._take()
            found = _named(name)
            return found if char == "p" else _ASCII - found
        if char in _CONTROLS:
            return frozenset(_CONTROLS[char])
        if char == "c":
            return frozenset(chr(ord(self._take()) ^ 64))
        digits = {"x": r"[0-9a-fA-F]{2}|\{[0-9a-fA-F]+\}", "u": r"[0-9a-fA-F]{4}", "0": r"[0-3]?[0-7]{1,2}"}.get(char)
        if digits is not None:
            match = re.compile(digits).match(self._text, self._at)
            if match is None:
                raise PatternError(f"\\{char} needs a number")
            self._at = match.end()
            return frozenset(chr(min(int(match[0].strip("{}"), 8 if char == "0" else 16), 0x10FFFF)))
        if char.isalnum():
            raise PatternError(f"\\{char} can't be translated")
        return frozenset(char)

    def _class(self) -> str:
        """After ``[``: the class as the characters in it."""
        negated = self._peek("^")
        self._at += negated
        return self._set(self._members(), negated=negated)

    def _members(self) -> frozenset[str]:
        """Up to the closing bracket: a union, or several joined by ``&&``."""
        found: frozenset[str] = frozenset()
        both: frozenset[str] | None = None
        first = True
        while True:
            if self._peek("&&"):
                self._at += 2
                both, found = found if both is None else both & found, frozenset()
                continue
            char = self._take()
            if char == "]" and not first:
                return found if both is None else both & found
            first = False
            if char == "[":
                negated = self._peek("^")
                self._at += negated
                inner = self._members()
                found |= _ASCII - inner if negated else inner
                continue
            part = self._escaped_set() if char == "\\" else frozenset(char)
            if len(part) == 1 and self._peek("-") and not self._peek("-]") and not self._peek("-["):
                self._at += 1
                last = self._take()
                to = self._escaped_set() if last == "\\" else frozenset(last)
                if len(to) != 1 or min(to) < min(part):
                    raise PatternError(f"the range {min(part)}-{min(to)} goes backwards or ends in a class")
                part = frozenset(map(chr, range(ord(min(part)), min(ord(min(to)), 127) + 1)))
            found |= self._any_case(part)

    def _any_case(self, members: frozenset[str]) -> frozenset[str]:
        """Java widens what is written, before it negates or intersects it."""
        return members | {c.swapcase() for c in members} if self._ignores_case else members

    def _set(self, members: frozenset[str], *, negated: bool) -> str:
        members &= _ASCII
        if negated:
            members = _ASCII - members
        inside = "".join(f"\\x{ord(c):02x}" for c in sorted(members))
        return f"[{inside}]" if inside else "(?!)"


def _named(name: str) -> frozenset[str]:
    """The ASCII characters of ``\\p{name}``. Raises PatternError for a name that is not known."""
    if name in _NAMED:
        return _NAMED[name]
    category = re.sub(r"^(Is|general_category=|gc=)", "", name)
    if re.fullmatch(r"[A-Z][a-z]?", category):
        found = frozenset(c for c in _ASCII if unicodedata.category(c).startswith(category))
        if found or category in ("L", "M", "N", "P", "S", "Z", "C", "Lt", "Lm", "Lo", "Mn", "Nl", "No", "Pi", "Pf"):
            return found
    raise PatternError(f"the class \\p{{{name}}} can't be translated")
