"""Whether a series of samples climbs, by how much, and how sure that is: pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

SETTLING = 0.25
"""Of the samples, which are left out: caches fill and pools grow in the beginning."""
BLOCKS = 45
"""Medians of so many stretches are fitted: neighbouring samples know of each other and would feign certainty."""
_SURE = 1.96
"""Standard deviations, for 95 in 100."""


class Trend(NamedTuple):
    """By how much a sample is more than the one before, by the median of the slopes between all pairs (Theil and Sen),
    which a few outliers do not turn; `low` and `high` enclose it with 95 in 100 (Sen). `level`: at the first sample."""

    slope: float
    low: float
    high: float
    level: float


def trend(samples: Sequence[float]) -> Trend | None:
    """Over the samples after the settling; None if they are too few to tell."""
    start = int(len(samples) * SETTLING)
    settled = samples[start:]
    if len(settled) < 4:
        return None
    size = max(1, len(settled) // BLOCKS)
    blocks = [settled[at : at + size] for at in range(0, len(settled) - size + 1, size)]
    points = [(start + number * size + (size - 1) / 2, statistics.median(block)) for number, block in enumerate(blocks)]
    slopes = sorted(
        (later - earlier) / (to - at) for place, (at, earlier) in enumerate(points) for to, later in points[place + 1 :]
    )
    count = len(points)
    spread = _SURE * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, round((len(slopes) - spread) / 2))
    high = min(len(slopes) - 1, round((len(slopes) + spread) / 2))
    slope = statistics.median(slopes)
    level = statistics.median(value - slope * at for at, value in points)
    return Trend(slope, slopes[low], slopes[high], level)


def climbs(samples: Sequence[float], allowed: float) -> bool:
    """Whether the trend over the samples after the settling adds more than `allowed` from their begin to their end."""
    found = trend(samples)
    return found is not None and found.slope * (len(samples) - int(len(samples) * SETTLING) - 1) > allowed
