"""Faults planted in whole brokers are found within the seeds that are stated here.

`python -m tests.simulation.real.mutations` tries all of them, those of the controller and of the replicas included, on
as many seeds as it is given; here are some of each kind, those that take the fewest.
"""

from __future__ import annotations

import subprocess
import sys

SEEDS = 12
FOUND_SOON = (
    "a_flush_syncs_nothing",
    "duplicates_are_appended_again",
    "a_repeated_batch_is_taken_for_a_gap",
    "undecided_transactions_are_shown",
    "aborted_transactions_are_not_named",
    "an_abort_commits",
    "acks_all_waits_for_nobody",
    "election_ignores_the_isr",
    "recovery_forgets_the_producers",
    "names_are_not_synced",
    "the_newest_record_of_a_key_goes_too",
    "an_older_record_of_a_key_wins",
    "generations_do_not_grow",
    "the_oldest_commit_wins",
    "partitions_are_given_before_they_are_given_up",
    "silence_gives_partitions_up",
    "members_of_any_epoch_may_commit",
)


def test_planted_faults_are_found() -> None:
    command = [sys.executable, "-m", "tests.simulation.real.mutations", "--seeds", str(SEEDS), *FOUND_SOON]
    tried = subprocess.run(command, capture_output=True, text=True)
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert [line.split(":")[0] for line in tried.stdout.splitlines()] == list(FOUND_SOON)
