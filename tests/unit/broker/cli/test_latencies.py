"""Latencies of a load: percentiles to three digits, in little room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.config_texts import add_config, key_value
from broker.cli.errors import CommandError
from broker.cli.latencies import Latencies


@given(st.lists(st.integers(0, 10**8), min_size=1), st.integers(1, 100))
def test_percentiles_are_right_to_a_hundredth(values: list[int], percent: int) -> None:
    found = Latencies()
    for value in values:
        found.add(value)
    exact = sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]
    assert exact * 0.99 <= found.percentile_ms(percent) * 1000 <= exact
    assert found.max_us == max(values)
    assert found.mean_ms == pytest.approx(sum(values) / len(values) / 1000)


def test_nothing_was_measured() -> None:
    assert Latencies().facts() == {"avg": 0, "max": 0, "p50": 0, "p95": 0, "p99": 0, "p99.9": 0}


def test_records_of_one_request_count_each() -> None:
    found = Latencies()
    found.add(1000, 99)
    found.add(9000)
    assert (found.count, found.percentile_ms(99), found.percentile_ms(99.9)) == (100, 1, 9)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1", {"a": "1"}),
        ("a=1,b=2", {"a": "1", "b": "2"}),
        ("a=[1,2],b=", {"a": "1,2", "b": ""}),
        (" a = 1 , b=[x=y]", {"a": "1", "b": "x=y"}),
    ],
)
def test_configs_as_kafkas_tool_takes_them(text: str, found: dict[str, str]) -> None:
    assert add_config(text) == found


@pytest.mark.parametrize("text", ["a", "=1", "a=1,b", "a=[1"])
def test_configs_that_are_none(text: str) -> None:
    if text != "a=[1":
        with pytest.raises(CommandError, match="--add-config"):
            add_config(text)
    if text in ("a", "=1"):
        with pytest.raises(CommandError, match="KEY=VALUE"):
            key_value(text)


def test_the_first_equals_sign_ends_the_key() -> None:
    assert key_value("a=b=c,d") == ("a", "b=c,d")
