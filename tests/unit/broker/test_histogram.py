from __future__ import annotations

import sys

import pytest

from broker.metrics import Histogram


def test_values_that_occurred_often_count_as_often() -> None:
    histogram = Histogram()
    for _ in range(50):
        histogram.update(0, 900)
        histogram.update(10, 100)
    assert histogram.count == 50_000
    assert histogram.total == 50_000
    assert (histogram.minimum, histogram.maximum) == (0, 10)
    assert histogram.mean == pytest.approx(1)
    assert histogram.percentiles((0.8,)) == [0]
    assert histogram.percentiles((0.97,)) == [10]


def test_the_sample_follows_all_values_and_stays_bounded() -> None:
    histogram = Histogram()
    for value in range(10_000):
        histogram.update(value)
    assert histogram.percentiles((0.5,))[0] == pytest.approx(5000, abs=600)
    assert len(histogram._sample) == 1028


@pytest.mark.parametrize(("largest", "most_bytes"), [(255, 1_300), (60_000, 2_500), (70_000, 9_900), (0.5, 9_900)])
def test_a_full_sample_takes_little_more_than_its_values(largest: float, most_bytes: int) -> None:
    """A broker has hundreds of histograms; those of rare requests fill for hours."""
    histogram = Histogram()
    for value in range(5_000):
        histogram.update(value % 200)
    histogram.update(largest, 50_000)
    assert histogram.percentiles((1.0,)) == [max(largest, 199)]
    assert sys.getsizeof(histogram._sample) < most_bytes


def test_values_of_every_kind_are_kept_as_they_are() -> None:
    histogram = Histogram()
    for value in (3, 255, 256, 2.5, -1, 2**40, 65_536):
        histogram.update(value)
    assert sorted(histogram._sample) == [-1, 2.5, 3, 255, 256, 65_536, 2**40]
    assert histogram.percentiles((0.0, 1.0)) == [-1, 2**40]
