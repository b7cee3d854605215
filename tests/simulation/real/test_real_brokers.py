"""Seeded runs of whole brokers: what clients were promised holds, whatever happens to processes, disks and network."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.real.run import Plan, run

SEEDS = 3


@pytest.mark.parametrize("seed", range(SEEDS))
def test_three_brokers_keep_what_they_acknowledged(seed: int) -> None:
    outcome = run(seed)
    assert outcome.problem is None, "\n".join(outcome.trace)
    assert outcome.acked > 50
    assert outcome.faults


@pytest.mark.parametrize("seed", range(3))
def test_one_broker_that_syncs_every_record_survives_the_loss_of_power(seed: int) -> None:
    outcome = run(seed, Plan(1, 6_000, config=ONE))
    assert outcome.problem is None, "\n".join(outcome.trace)
    assert outcome.acked > 20


def test_a_seed_gives_the_same_trace_to_the_byte() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.simulation", "5", "--trace", "--brokers", "3"]
    one, two = (subprocess.run(command, env=environment, capture_output=True, check=True).stdout for _ in range(2))
    assert b"acknowledges" in one
    assert one == two


ONE = {"log.flush.interval.messages": "1", "min.insync.replicas": "1", "default.replication.factor": "1"}
