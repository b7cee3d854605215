from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.java_values import double_text, parse_double, parse_integer, trim


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (-0.0, "-0.0"),
        (1, "1.0"),
        (0.001, "0.001"),
        (0.0009, "9.0E-4"),
        (1e-7, "1.0E-7"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (99999999.9, "9.99999999E7"),
        (-12345678.9, "-1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_texts_of_doubles(value: float, text: str) -> None:
    assert double_text(float(value)) == text


@given(st.floats(allow_nan=False))
def test_what_is_written_is_read(value: float) -> None:
    assert parse_double(double_text(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1f", 1),
        ("1d", 1),
        (".5", 0.5),
        ("1.", 1),
        ("+1e3", 1000),
        ("0x1p3", 8),
        ("1e400", math.inf),
        ("-Infinity", -math.inf),
    ],
)
def test_doubles(text: str, value: float) -> None:
    assert parse_double(text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_double, text)
        for text in ("", "inf", "nan", "1_000", "\u0663", "1 ", "e5", "0x10", "--1", "+-Infinity", "1ff")
    ]
    + [(parse_integer, text) for text in ("", "1_000", "1.0", "0x10", "1L", " 1", "--1")],
)
def test_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_integers_may_have_a_sign() -> None:
    assert (parse_integer("+07"), parse_integer("-1")) == (7, -1)


def test_only_control_characters_and_spaces_are_trimmed() -> None:
    assert trim(" \t\x001\n") == "1"
    assert trim("\u00a01") == "\u00a01"
