"""A trend is seen through noise, and noise is no trend; samples are kept as they come, and drawn."""

from __future__ import annotations

import random
from pathlib import Path
from xml.etree import ElementTree

from tests.soak.samples import ALLOWED, SECONDS, SampleFile, plot, read_samples
from tests.soak.slope import climbs, trend


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


def test_the_trend_is_within_its_bounds() -> None:
    found = trend(noisy(0.5))
    assert found is not None
    assert found.low < 0.5 < found.high
    assert found.low > 0.3
    assert found.high < 0.7
    flat = trend(noisy(0))
    assert flat is not None
    assert flat.low < 0 < flat.high


def test_samples_are_in_the_file_as_they_come(tmp_path: Path) -> None:
    """A soak that is killed has written what it took; a line that it did not end is left out."""
    path = tmp_path / "soak.csv"
    kept = SampleFile(path)
    taken = [{SECONDS: 10.0 * number, **dict.fromkeys(ALLOWED, number / 2)} for number in range(1, 9)]
    for number, each in enumerate(taken, 1):
        kept.add(each)
        assert read_samples(path, 10) == taken[:number]
    kept.close()
    with path.open("a") as file:
        file.write("90,1,2")
    assert read_samples(path, 10) == taken


def test_samples_without_times_are_so_far_apart(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text(f"{','.join(ALLOWED)}\n" + f"{','.join('1' for _ in ALLOWED)}\n" * 3)
    assert [each[SECONDS] for each in read_samples(path, 20)] == [20, 40, 60]


def test_each_figure_has_its_line_and_its_trend(tmp_path: Path) -> None:
    taken = [{SECONDS: 10.0 * number, **dict.fromkeys(ALLOWED, 5.0)} for number in range(1, 40)]
    drawn = ElementTree.fromstring(plot(taken)).findall("{http://www.w3.org/2000/svg}polyline")
    assert len(drawn) == 2 * len(ALLOWED)


def test_too_few_samples_tell_nothing() -> None:
    assert not climbs([1, 2, 3, 4], 0)
