"""Kerberos principals to names of users: the answers that Kafka 3.9.1's own class gave stand in
tests/golden/kerberos_rules.tsv (rules with two blanks between them, principal, `=` and the name, or `!` where it
refuses the rule or the principal)."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.keys import ConfigError
from broker.security.kerberos_rules import NoMatchingRule, PrincipalRules, own_authorization
from network.sasl.mechanism import SaslAuthenticationError, SaslError

GOLDEN = Path(__file__).parents[3] / "golden" / "kerberos_rules.tsv"
REALM = "ODRADEK.TEST"


def answer(rules: list[str], principal: str) -> str:
    try:
        return "=" + PrincipalRules(REALM, rules).short_name(principal)
    except (ConfigError, NoMatchingRule):
        return "!"


def test_every_answer_is_the_reference_s() -> None:
    lines = [line.split("\t") for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    wrong = [
        (rules, principal, expected, given)
        for rules, principal, expected in lines
        if (given := answer(rules.split("  ") if rules else [], principal)) != expected
    ]
    assert not wrong
    assert len(lines) > 400


def test_what_is_wrong_with_a_rule_is_said() -> None:
    for rule, said in (
        ("rule", "Invalid rule: rule"),
        ("DEFAULT/L", "unmatched substring: `/L`"),
        ("RULE:[1:$1](*)", "*"),
    ):
        with pytest.raises(ConfigError) as caught:
            PrincipalRules(REALM, [rule])
        assert "sasl.kerberos.principal.to.local.rules" in str(caught.value)
        assert said in str(caught.value)


def test_nobody_is_who_they_ask_to_be() -> None:
    rules = PrincipalRules(REALM, None)
    assert rules.authorize(f"alice/x@{REALM}", "admin") == "alice"
    for principal in (f"admin\\/x@{REALM}", "admin@OTHER", f"a@b@{REALM}"):
        with pytest.raises(SaslError):
            rules.authorize(principal, "admin")


class Own:
    def authorize(self, principal: str, authorization_id: str) -> object:
        return {"a@R": authorization_id, "b@R": None, "c@R": True}[principal]


def test_an_object_of_the_user_s_own_decides() -> None:
    authorize = own_authorization(Own())
    assert authorize("a@R", "x") == "x"
    for principal in ("b@R", "c@R"):
        with pytest.raises(SaslAuthenticationError, match=f"{principal} is not authorized to act as x"):
            authorize(principal, "x")
