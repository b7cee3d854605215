"""Equal values that thousands hold are one object."""

from __future__ import annotations

from typing import NamedTuple

from timer.sharing import shared


class Pair(NamedTuple):
    one: int
    other: int


def test_equal_values_are_one_object() -> None:
    numbers = [1, 2, 3]
    first = shared(tuple(numbers))
    assert shared(tuple(numbers)) is first == (1, 2, 3)
    assert shared(tuple(reversed(numbers))) == (3, 2, 1)


def test_equal_values_of_other_types_are_not() -> None:
    plain, pair = shared((7, 8)), shared(Pair(7, 8))
    assert plain == pair
    assert (type(plain), type(pair)) == (tuple, Pair)
    assert type(shared((7, 8))) is tuple
