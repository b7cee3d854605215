"""The samples of a soak: written as they come, read again, judged and drawn."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.charts import panels_chart
from tests.soak.slope import SETTLING, climbs, trend

ALLOWED = {
    "memory_mb": 15.0,
    "threads": 7.0,  # of `background.threads`, of which ten are started as work comes together
    "descriptors": 20.0,
    "delayed_operations": 30.0,
    "purgatory_keys": 30.0,
    "produce_p99_ms": 50.0,
}
"""Growth that is noise, for each figure in its own unit."""
TITLES = {
    "memory_mb": "memory of the broker, MB",
    "threads": "threads",
    "descriptors": "file descriptors",
    "delayed_operations": "delayed operations (timers)",
    "purgatory_keys": "watched keys in purgatories",
    "produce_p99_ms": "Produce, 99th percentile, ms",
}
SECONDS = "seconds"
EXTRAPOLATED_HOURS = 6

Sample = dict[str, float]


class SampleFile:
    """A CSV that has each sample as soon as it is taken, so that a soak that is killed keeps them."""

    def __init__(self, path: Path | None) -> None:
        self._file = path.open("w") if path is not None else None
        self._write((SECONDS, *ALLOWED))

    def add(self, sample: Sample) -> None:
        self._write([f"{sample[key]:g}" for key in (SECONDS, *ALLOWED)])

    def _write(self, values: Sequence[str]) -> None:
        if self._file is not None:
            self._file.write(",".join(values) + "\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def read_samples(path: Path, every: float) -> list[Sample]:
    """From a CSV; where it has no times, samples are `every` seconds apart. A last line that is torn is left out."""
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if None not in row.values()]
    return [
        {SECONDS: every * (number + 1), **{key: float(value) for key, value in row.items()}}
        for number, row in enumerate(rows)
    ]


def judge(samples: Sequence[Sample]) -> int:
    """Print each figure with its trend; 1 if one grows."""
    grown = 0
    hours = samples[-1][SECONDS] / 3600
    for name, allowed in ALLOWED.items():
        values = [each[name] for each in samples]
        bad = climbs(values, allowed)
        grown += bad
        ends = f"{values[len(values) // 4]:g} after a quarter, {values[-1]:g} at the end, at most {max(values):g}"
        print(f"{name}: {ends} ({allowed:g} more allowed){'  GROWS' if bad else ''}{_ahead(values, hours)}")
    return 1 if grown else 0


def _ahead(values: Sequence[float], hours: float) -> str:
    """The trend by the hour, and where it leads."""
    found = trend(values)
    if found is None:
        return ""
    an_hour = len(values) / hours
    slope, low, high = (part * an_hour for part in found[:3])
    end = found.level + found.slope * (len(values) - 1)
    more = EXTRAPOLATED_HOURS - hours
    return (
        f"; {slope:+.2f} an hour ({low:+.2f} to {high:+.2f} with 95 in 100), after {EXTRAPOLATED_HOURS} hours "
        f"{end + slope * more:.1f} ({end + low * more:.1f} to {end + high * more:.1f})"
    )


def plot(samples: Sequence[Sample]) -> str:
    """One page of SVG: each figure over the minutes, with its trend after the settling."""
    minutes = [each[SECONDS] / 60 for each in samples]
    panels, lines = {}, {}
    for name, title in TITLES.items():
        values = [each[name] for each in samples]
        panels[title] = list(zip(minutes, values, strict=True))
        found = trend(values)
        if found is not None:
            ends = (int(len(values) * SETTLING), len(values) - 1)
            lines[title] = [(minutes[at], found.level + found.slope * at) for at in ends]
    return panels_chart("One broker at steady work", "minutes; dashed: the trend", panels, lines)
