"""Questions of a page are read with their bounds; whatever bytes come are answered with a refusal at most."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.http.console.access import Problem
from broker.http.console.api.question import Question

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@given(st.binary(max_size=100))
def test_a_body_is_an_object_or_refused(body: bytes) -> None:
    with contextlib.suppress(Problem):
        Question.of_body(body)
        assert isinstance(json.loads(body), dict)


def test_a_body_that_is_nested_without_end_is_refused() -> None:
    with pytest.raises(Problem):
        Question.of_body(b"[" * 200_000)


@given(JSON_VALUES)
def test_each_reader_gives_its_type_within_its_bounds_or_refuses(value: Any) -> None:
    question = Question({"x": value})
    readers: list[tuple[Callable[[], Any], Callable[[Any], bool]]] = [
        (lambda: question.text("x", maximum=10), lambda found: isinstance(found, str) and len(found) <= 10),
        (lambda: question.number("x", low=-5, high=5), lambda found: type(found) is int and -5 <= found <= 5),
        (lambda: question.one_of("x", ("a", "b")), lambda found: found in ("a", "b")),
        (lambda: question.texts("x", 3), lambda found: len(found) <= 3 and all(isinstance(e, str) for e in found)),
        (lambda: question.map("x", 2), lambda found: isinstance(found, dict) and len(found) <= 2),
    ]
    for read, right in readers:
        with contextlib.suppress(Problem):
            assert right(read())


def test_what_is_missing_has_its_default_or_is_refused() -> None:
    question = Question({})
    assert question.number("n", 7) == 7
    assert question.text("t", "") == ""
    with pytest.raises(Problem, match="n has to be a number"):
        question.number("n")
