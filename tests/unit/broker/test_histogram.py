from __future__ import annotations

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
