"""Which expressions a subscription may match clients with."""

from __future__ import annotations

import sys

import pytest

from broker.groups.consumer import regex
from broker.telemetry.match import MatchError, matches, parse_match
from network.protocol.errors import ApiError, ErrorCode

ID = "client_id"


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        ("app-.*", "app-1", True),
        ("app", "app-1", False),
        ("(prod|dev|test)-.*", "dev-7", True),
        ("(?i)APP", "app", True),
        (r"m\pL", "me", True),
        ("(a|aa)+b", "a" * 5_000, False),  # no answer in a lifetime, did it try every way
    ],
)
def test_all_of_an_attribute_is_matched(expression: str, value: str, expected: bool) -> None:
    assert matches(parse_match([f"{ID}={expression}"]), {ID: value}) is expected


@pytest.mark.parametrize("item", ["", ID, f"{ID}=", "=x", "nothing=x", f"{ID}=a=b", f"{ID}=(", f"{ID}={'x' * 4097}"])
def test_what_is_no_attribute_with_an_expression_is_refused(item: str) -> None:
    with pytest.raises(MatchError, match=r"^Illegal client matching pattern: "):
        parse_match([item])


def test_every_attribute_must_match_and_the_last_expression_of_one_counts() -> None:
    match = parse_match([f" {ID} = x ", f"{ID}=a.*", "client_source_port=\\d+"])
    assert matches(match, {ID: "ab", "client_source_port": "9092"})
    assert not matches(match, {ID: "ab", "client_source_port": "-"})
    assert not matches(match, {ID: "x", "client_source_port": "9092"})
    assert matches({}, {})


def test_without_re2_every_expression_is_refused_and_nothing_else_evaluates_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(MatchError, match="no google-re2"):
        parse_match(["client_id=app-.*"])
    with pytest.raises(ApiError, match="no google-re2") as refused:
        regex.matching("never-seen-before.*", ["topic-1"])
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
