"""`sasl.kerberos.principal.to.local.rules`: from a Kerberos principal to a user's name, by the rules that Hadoop calls
`auth_to_local`.

A principal is `primary[/instance]@REALM`. The first rule that gives a name wins: `DEFAULT` the primary of a principal
of our own realm, `RULE:[n:format](match)s/from/to/g/L` what is made of `format` (`$0` realm, `$1` primary, `$2`
instance) of a principal of `n` parts, if `match` matches the whole of it. A name with `/` or `@` in it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from broker.config.keys import ConfigError
from network.sasl.gssapi_exchange import Authorize
from network.sasl.mechanism import SaslAuthenticationError, SaslError

RULES = "sasl.kerberos.principal.to.local.rules"

_PRINCIPAL = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE = re.compile(
    r"(?P<default>DEFAULT)|"
    r"RULE:\[(?P<parts>\d*):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?",
    re.ASCII,
)
_PARAMETER = re.compile(r"\$(\d*)", re.ASCII)
_GROUP = re.compile(r"\\(.)|\$(\d)|[\\$]", re.DOTALL | re.ASCII)


class NoMatchingRule(ValueError):
    """No rule says who a principal is, or one says something that is no name."""


class Rule(NamedTuple):
    """`parts` of 0: the default rule."""

    text: str
    parts: int = 0
    format: str = ""
    match: re.Pattern[str] | None = None
    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    replaced: int = 1
    case: str = ""

    def apply(self, parameters: Sequence[str]) -> str | None:
        """Of realm, primary and instance."""
        if len(parameters) - 1 != self.parts:
            return None
        base = _PARAMETER.sub(lambda found: self._parameter(found[1], parameters), self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.pattern is not None:
            base = self.pattern.sub(self._replaced, base, self.replaced)
        _check_simple(base, self.text)
        return base.lower() if self.case == "L" else base.upper() if self.case == "U" else base

    def _parameter(self, number: str, parameters: Sequence[str]) -> str:
        if not number:
            raise NoMatchingRule(f"bad format in username mapping in {self.format}")
        if int(number) >= len(parameters):
            raise NoMatchingRule(
                f"index {number} from {self.format} is outside of the valid range 0 to {len(parameters) - 1}"
            )
        return parameters[int(number)]

    def _replaced(self, match: re.Match[str]) -> str:
        def group(found: re.Match[str]) -> str:
            if found[1] is not None:
                return found[1]
            if found[2] is None:
                raise IndexError
            return match[int(found[2])] or ""

        try:
            return _GROUP.sub(group, self.replacement)
        except IndexError:
            raise NoMatchingRule(f"the rule {self.text} names a group that its pattern does not have") from None


class PrincipalRules:
    """The rules of a listener."""

    def __init__(self, realm: str, texts: Sequence[str] | None) -> None:
        """`realm` is our own. Raises `ConfigError` for rules that cannot be read."""
        self._realm = realm
        self._rules = [_parse(text) for text in (["DEFAULT"] if texts is None else texts)]

    def short_name(self, principal: str) -> str:
        """Raises `NoMatchingRule`."""
        parsed = _PRINCIPAL.fullmatch(principal)
        if parsed is None:
            if "@" in principal:
                raise NoMatchingRule(f"Malformed Kerberos name: {principal}")
            return principal
        primary, instance, realm = parsed.groups()
        parameters = [realm, primary] if instance is None else [realm, primary, instance]
        for rule in self._rules:
            found = self._default(parameters) if not rule.parts and rule.text == "DEFAULT" else rule.apply(parameters)
            if found is not None:
                return found
        rules = ", ".join(rule.text for rule in self._rules)
        raise NoMatchingRule(f"No rules apply to {principal}, rules [{rules}]")

    def authorize(self, principal: str, authorization_id: str) -> str:
        """Who the principal is, whatever it asks to be, as in Kafka. Raises `SaslError`."""
        if "\\" in principal:
            # A part with a slash or at sign in it, which would look like a principal of more parts.
            raise SaslError("the principal has a character that no rule can tell from a separator")
        try:
            return self.short_name(principal)
        except NoMatchingRule as error:
            raise SaslError(str(error)) from None

    def _default(self, parameters: Sequence[str]) -> str | None:
        return parameters[1] if parameters[0] == self._realm else None


def own_authorization(handler: Any) -> Authorize:
    """By an object of the user's own that has `authorize`."""

    def authorize(principal: str, authorization_id: str) -> str:
        name = handler.authorize(principal, authorization_id)
        if not isinstance(name, str) or not name:
            raise SaslAuthenticationError(f"{principal} is not authorized to act as {authorization_id}")
        return name

    return authorize


def _check_simple(name: str, rule: str) -> None:
    if "/" in name or "@" in name:
        raise NoMatchingRule(f"Non-simple name {name} after auth_to_local rule {rule}")


def _parse(text: str) -> Rule:
    match = _RULE.match(text)
    if match is None:
        raise ConfigError(f"{RULES}: Invalid rule: {text}")
    if match.end() != len(text):
        raise ConfigError(f"{RULES}: Invalid rule: `{text}`, unmatched substring: `{text[match.end() :]}`")
    if match["default"]:
        return Rule(text)
    try:
        parts = int(match["parts"])
        whole, pattern = (
            None if each is None else re.compile(each, re.ASCII) for each in (match["match"], match["from"])
        )
    except (ValueError, re.error) as error:
        raise ConfigError(f"{RULES}: {text} cannot be read: {error}") from None
    replaced = 0 if match["all"] else 1
    return Rule(text, parts, match["format"], whole, pattern, match["to"] or "", replaced, match["case"] or "")
