"""A table of planted faults, and how one is put into it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


class Mutations(dict[str, Plant]):
    """By the name of the function that plants the fault; `add` is the decorator of such a function."""

    def add(self, plant: Plant) -> Plant:
        self[plant.__name__] = plant
        return plant
