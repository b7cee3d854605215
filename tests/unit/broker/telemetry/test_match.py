"""Which expressions a subscription may match clients with."""

from __future__ import annotations

import pytest

from broker.telemetry.match import MatchError, matches, parse_match

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
