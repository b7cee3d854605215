"""`ssl.principal.mapping.rules`: from the distinguished name of a certificate to the name of a principal.

Rules stand between commas, and the first that matches the whole name says what it becomes:
`DEFAULT` leaves it as it is, `RULE:pattern/replacement/` puts in groups by `$1`, with `L` or `U` at its end in lower or
upper case.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from broker.config.keys import ConfigError

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_PARSER = re.compile(_RULE)
_SPLITTER = re.compile(rf"\s*({_RULE}.*?|.*?)\s*(?:,\s*|$)")
_GROUP = re.compile(r"\\(.)|\$(\d)", re.DOTALL)


class NoMatchingRule(ValueError):
    """The name is matched by no rule, so its owner has no principal."""


class Rule(NamedTuple):
    """No pattern: the name as it is."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None

        def group(found: re.Match[str]) -> str:
            if found[1] is not None:
                return found[1]
            assert match is not None
            number = int(found[2])
            return found[0] if number > match.re.groups else match[number] or ""

        result = _GROUP.sub(group, self.replacement)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result


class PrincipalMapper:
    """The rules of one listener. Raises `ConfigError` for rules that cannot be read."""

    def __init__(self, rules: str) -> None:
        self._text = rules
        self._rules = [_parse(text) for text in _split(rules.strip())]

    def name(self, distinguished_name: str) -> str:
        """Raises `NoMatchingRule`."""
        for rule in self._rules:
            found = rule.apply(distinguished_name)
            if found is not None:
                return found
        raise NoMatchingRule(f"No rules apply to {distinguished_name}, rules {self._text}")


def _split(text: str) -> list[str]:
    return [match[1] for match in _SPLITTER.finditer(text) if match[1]]


def _parse(text: str) -> Rule:
    match = _PARSER.match(text)
    if match is None:
        raise ConfigError(f"ssl.principal.mapping.rules: Invalid rule: {text}")
    if match.end() != len(text):
        rest = text[match.end() :]
        raise ConfigError(f"ssl.principal.mapping.rules: Invalid rule: `{text}`, unmatched substring: `{rest}`")
    if match[1] is not None:
        return Rule(None)
    try:
        pattern = re.compile(match[2])
    except re.error as error:
        raise ConfigError(f"ssl.principal.mapping.rules: {match[2]} is no pattern: {error}") from None
    return Rule(pattern, match[3], match[4])
