"""Seeded runs of whole brokers: what clients were promised holds, whatever happens to processes, disks and network.

They are run by their command, in which a seed gives the same run each time; what it prints is the story of a failure.
"""

from __future__ import annotations

import subprocess
import sys


def simulate(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def acknowledged(lines: list[str]) -> int:
    """Records of all seeds: with many faults there are few of one seed."""
    return sum(int(line.split()[2]) for line in lines)


def test_three_brokers_keep_what_they_acknowledged() -> None:
    lines = simulate("0", "4").splitlines()
    assert len(lines) == 4
    assert acknowledged(lines) > 400, lines


def test_one_broker_that_syncs_every_record_survives_the_loss_of_power() -> None:
    lines = simulate("0", "4", "--brokers", "1").splitlines()
    assert len(lines) == 4
    assert acknowledged(lines) > 200, lines


def test_a_seed_gives_the_same_trace_to_the_byte() -> None:
    one, two = simulate("5", "--trace"), simulate("5", "--trace")
    assert "acknowledges" in one
    assert one == two
