"""Whether a series of samples climbs: a pure function."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

SETTLING = 0.25
"""Of the samples, which are left out: caches fill and pools grow in the beginning."""


def climbs(samples: Sequence[float], allowed: float) -> bool:
    """Whether the trend over the samples after the settling adds more than `allowed` from their begin to their end.

    The trend is the median of the slopes between all pairs (Theil and Sen), which a few outliers do not turn.
    """
    settled = samples[int(len(samples) * SETTLING) :]
    if len(settled) < 4:
        return False
    slopes = [
        (later - earlier) / (to - at)
        for at, earlier in enumerate(settled)
        for to, later in enumerate(settled[at + 1 :], at + 1)
    ]
    return statistics.median(slopes) * (len(settled) - 1) > allowed
