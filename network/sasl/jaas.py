"""JAAS configuration as Kafka reads it: `Module required key="value" ...;`, alone in `sasl.jaas.config` or by names of
contexts in a file.

The rules of the text are those of Java's stream tokenizer: words, quoted strings with Java's escapes, comments. What an
error says holds no value of an option, because options are passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})

_SPACE = re.compile(r"(?:[\x00-\x20]+|/\*.*?(?:\*/|$)|//[^\r\n]*|/[^\r\n]*)+", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_$\u00a0-\uffff][A-Za-z0-9_$.\-\u00a0-\uffff]*")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL = re.compile(r"[0-3][0-7]{0,2}|[0-7]{1,2}")


class JaasError(ValueError):
    """The text is no JAAS configuration, or lacks what is needed."""


class LoginModule(NamedTuple):
    """One entry. Its text shows the names of its options alone."""

    name: str
    flag: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name} {self.flag} {sorted(self.options)})"


class _Token(NamedTuple):
    kind: str
    """`word`, `string`, or the character itself."""
    text: str


def parse_modules(text: str) -> list[LoginModule]:
    """The entries of a `sasl.jaas.config`. Raises `JaasError`."""
    tokens = _Tokens(text)
    modules = []
    while not tokens.at_end:
        modules.append(_module(tokens))
    if not modules:
        raise JaasError("Login module not specified in JAAS config")
    return modules


def parse_single(text: str) -> LoginModule:
    """The one entry that a `sasl.jaas.config` may have. Raises `JaasError`."""
    modules = parse_modules(text)
    if len(modules) != 1:
        raise JaasError(f"JAAS config property contains {len(modules)} login modules, should be 1 module")
    return modules[0]


def parse_file(text: str) -> dict[str, list[LoginModule]]:
    """The contexts of a JAAS file, `Name { entries };`. Raises `JaasError`."""
    tokens = _Tokens(text)
    contexts: dict[str, list[LoginModule]] = {}
    while not tokens.at_end:
        name = tokens.name("the name of a context")
        tokens.expect("{", f"the context {name} does not begin with a brace")
        modules = []
        while tokens.peek() != "}":
            if tokens.at_end:
                raise JaasError(f"the context {name} has no end")
            modules.append(_module(tokens))
        tokens.expect("}", "")
        tokens.expect(";", f"the context {name} is not terminated by a semi-colon")
        if name in contexts:
            raise JaasError(f"the context {name} is there twice")
        contexts[name] = modules
    return contexts


def _module(tokens: _Tokens) -> LoginModule:
    name = tokens.name("Login module not specified in JAAS config")
    if tokens.at_end:
        raise JaasError("Login module control flag not specified in JAAS config")
    flag = tokens.name("Login module control flag is not available in the JAAS config")
    if flag.lower() not in FLAGS:
        raise JaasError(f"Invalid login module control flag of {name} in JAAS config")
    options: dict[str, str] = {}
    while not tokens.at_end and tokens.peek() != ";":
        key = tokens.next().text
        value = tokens.next() if not tokens.at_end and tokens.next().kind == "=" and not tokens.at_end else None
        if value is None or value.kind not in ("word", "string"):
            # Behind another option it may be the rest of a password with a blank in it and no quotes around.
            where = f"the key behind '{list(options)[-1]}'" if options else f"key '{key}'"
            raise JaasError(f"Value not specified for {where} in JAAS config")
        options[key] = value.text
    tokens.expect(";", "JAAS config entry not terminated by semi-colon")
    return LoginModule(name, flag.lower(), options)


class _Tokens:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokenize(text))
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._tokens)

    def peek(self) -> str:
        return "" if self.at_end else self._tokens[self._at].kind

    def next(self) -> _Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def name(self, missing: str) -> str:
        if self.at_end or self.peek() not in ("word", "string"):
            raise JaasError(missing)
        return self.next().text

    def expect(self, kind: str, missing: str) -> None:
        if self.peek() != kind:
            raise JaasError(missing)
        self.next()


def _tokenize(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        space = _SPACE.match(text, at)
        if space is not None:
            at = space.end()
            continue
        char = text[at]
        if char in "\"'":
            at, value = _quoted(text, at + 1, char)
            yield _Token("string", value)
            continue
        word = _WORD.match(text, at)
        if word is not None:
            at = word.end()
            yield _Token("word", word[0])
        else:
            at += 1
            yield _Token(char, char)


def _quoted(text: str, at: int, quote: str) -> tuple[int, str]:
    """Where the string ends, and what it says. It ends at the quote, or unclosed with its line."""
    parts = []
    while at < len(text) and text[at] not in (quote, "\n", "\r"):
        if text[at] == "\\" and at + 1 < len(text):
            octal = _OCTAL.match(text, at + 1)
            if octal is not None:
                parts.append(chr(int(octal[0], 8)))
                at = octal.end()
                continue
            at += 1
            parts.append(_ESCAPES.get(text[at], text[at]))
        else:
            parts.append(text[at])
        at += 1
    return at + (at < len(text) and text[at] == quote), "".join(parts)
