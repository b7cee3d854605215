"""Seeded runs of whole clusters under faults. `python -m tests.simulation.controllers SEED` replays a failing one."""

from __future__ import annotations

import logging

import pytest

from tests.simulation.cluster import Simulation

SEEDS = 500
STEPS = 1500


@pytest.fixture(autouse=True)
def _quiet() -> object:
    """The faults would log hundreds of thousands of lines."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("block", range(4))
def test_no_committed_record_is_lost_and_the_cluster_comes_to_rest(block: int) -> None:
    for seed in range(block * SEEDS // 4, (block + 1) * SEEDS // 4):
        simulation = Simulation(seed)
        try:
            for _ in range(STEPS):
                simulation.step()
            simulation.heal()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}; last steps: {list(simulation.trace)[-20:]}") from error
        assert simulation.server.writes


def test_a_seed_replays_exactly() -> None:
    def run() -> list[object]:
        simulation = Simulation(7)
        for _ in range(600):
            simulation.step()
        return list(simulation.server.writes)

    writes = run()
    assert any("topic_id" in str(write) for write in writes)
    assert writes == run()
