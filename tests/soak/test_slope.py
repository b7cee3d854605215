"""A trend is seen through noise, and noise is no trend."""

from __future__ import annotations

import random

from tests.soak.slope import climbs


def noisy(growth: float) -> list[float]:
    rng = random.Random(3)
    return [100 + number * growth + rng.gauss(0, 5) for number in range(120)]


def test_noise_does_not_climb() -> None:
    assert not climbs(noisy(0), 10)
    assert not climbs([*[100.0] * 100, 900.0, *[100.0] * 5], 10)


def test_a_leak_climbs() -> None:
    assert climbs(noisy(0.5), 10)


def test_what_grows_while_it_settles_does_not_climb() -> None:
    assert not climbs([*map(float, range(25)), *[30.0] * 80], 1)


def test_too_few_samples_tell_nothing() -> None:
    assert not climbs([1, 2, 3, 4], 0)
