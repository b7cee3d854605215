"""How long a sample counts in the rate of a quota."""

from __future__ import annotations

import pytest

from broker.quotas.rates import QuotaRate, Window


def test_a_sample_counts_until_the_window_has_passed_since_its_last_thing() -> None:
    """As in Kafka: forgotten by its beginning, a burst and the gap behind it would cost a sixth of the rate."""
    rate = QuotaRate(100.0, Window(3, 1000))
    rate.record(50, 0)
    rate.record(50, 900)
    assert rate.per_second(3000) == pytest.approx(100 / 3)
    assert rate.per_second(3899) == pytest.approx(100 / 3.899)
    assert rate.per_second(3900) == 0
    assert rate.delay_ms(3900) == 0
