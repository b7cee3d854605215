"""The simulation finds every planted fault: otherwise its silence about the real code would mean nothing."""

from __future__ import annotations

import logging

import pytest

from tests.simulation.cluster import InvariantBroken, Simulation
from tests.simulation.mutations import MUTATIONS

SEEDS = 400
STEPS = 1500


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS[name](monkeypatch)
    logging.disable(logging.CRITICAL)
    try:
        for seed in range(SEEDS):
            try:
                simulation = Simulation(seed)
                for _ in range(STEPS):
                    simulation.step()
                simulation.heal(rounds=8)
            except InvariantBroken:
                return
        pytest.fail(f"{SEEDS} seeds did not notice: {name}")
    finally:
        logging.disable(logging.NOTSET)
