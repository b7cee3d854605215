"""Seeded runs of real replicas under faults, and the faults that they have to notice."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.replica_mutations import MUTATIONS
from tests.simulation.replicas import Replicas

SEEDS = 20
STEPS = 2_000
MUTATION_SEEDS = 30


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Processes are killed here, not machines: what was written needs no sync. And faults would log a lot."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run(seed: int, directory: Path) -> Replicas:
    replicas = Replicas(seed, directory / str(seed))
    try:
        for _ in range(STEPS):
            replicas.step()
        replicas.heal()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}; last steps: {list(replicas.trace)[-20:]}") from error
    finally:
        replicas.close()
    return replicas


@pytest.mark.parametrize("block", range(2))
def test_committed_records_stay_and_all_replicas_come_back(tmp_path: Path, block: int) -> None:
    seeds = range(block * SEEDS // 2, (block + 1) * SEEDS // 2)
    assert sum(len(run(seed, tmp_path).committed) for seed in seeds) > 100


def test_a_seed_replays_exactly(tmp_path: Path) -> None:
    one, two = run(4, tmp_path / "one"), run(4, tmp_path / "two")
    assert list(one.trace) == list(two.trace)
    assert one.committed == two.committed
    assert one.controller.state == two.controller.state


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_planted_fault_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS[name](monkeypatch)
    for seed in range(MUTATION_SEEDS):
        try:
            run(seed, tmp_path)
        except AssertionError:
            return
    pytest.fail(f"{MUTATION_SEEDS} seeds did not notice: {name}")
