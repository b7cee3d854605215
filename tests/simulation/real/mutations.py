"""Faults planted in whole brokers: each breaks one promise, and clients' histories have to show it.

Those of the controller and of the replicas by themselves are planted here, too (`tests/simulation/mutations.py` and
`replica_mutations.py`), as far as whole brokers show them within a few seeds.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from broker.groups.classic.group import ClassicGroup
from broker.groups.offsets.group_offsets import GroupOffsets
from broker.groups.records import loader
from broker.groups.records.writer import GroupWriter
from broker.replication.partition import Partition
from broker.transactions import state_manager
from broker.transactions.coordinator import TransactionCoordinator
from log.files.file_records import FileRecords
from log.local_log import LocalLog
from log.management import recovery
from log.partition_log import PartitionLog
from log.producer_entry import ProducerAppendInfo, ProducerStateEntry
from log.producer_state import ProducerStateManager
from network.protocol.errors import ErrorCode
from tests.simulation import mutations as of_controllers
from tests.simulation import replica_mutations as of_replicas
from tests.simulation.real.run import ONE_BROKER, Plan, run

Patch = pytest.MonkeyPatch
THREE_BROKERS = Plan()
MUTATIONS: dict[str, tuple[Callable[[Patch], None], Plan]] = {}


def mutation(plan: Plan) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def add(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTATIONS[plant.__name__] = plant, plan
        return plant

    return add


# -- the log -----------------------------------------------------------------------------------------------------------


@mutation(ONE_BROKER)
def a_flush_syncs_nothing(patch: Patch) -> None:
    patch.setattr(FileRecords, "flush", lambda self: True)


@mutation(ONE_BROKER)
def duplicates_are_appended_again(patch: Patch) -> None:
    patch.setattr(ProducerStateEntry, "find_duplicate", lambda self, batch: None)
    patch.setattr(ProducerAppendInfo, "_check_sequence", lambda self, epoch, sequence, offset: None)


@mutation(ONE_BROKER)
def a_repeated_batch_is_taken_for_a_gap(patch: Patch) -> None:
    patch.setattr(ProducerStateEntry, "find_duplicate", lambda self, batch: None)


@mutation(ONE_BROKER)
def recovery_forgets_the_producers(patch: Patch) -> None:
    patch.setattr(recovery, "load_producers", lambda producers, batches: None)
    patch.setattr(ProducerStateManager, "_load", lambda self, log_start_offset, now_ms: None)
    for name in dir(recovery):
        found = getattr(recovery, name)
        if isinstance(found, type) and "_producer" in vars(found):
            patch.setattr(found, "_producer", lambda self, batch, producers: None)


# -- replication -------------------------------------------------------------------------------------------------------


@mutation(THREE_BROKERS)
def acks_all_waits_for_nobody(patch: Patch) -> None:
    """What is acknowledged is only the leader's, and the reader sees it: the next leader may not have it."""

    def enough(self: Partition, required_offset: int) -> tuple[bool, ErrorCode]:
        return self.leader_log() is not None, ErrorCode.NONE

    patch.setattr(Partition, "has_enough_replicas", enough)


# -- transactions ------------------------------------------------------------------------------------------------------


@mutation(THREE_BROKERS)
def undecided_transactions_are_shown(patch: Patch) -> None:
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark))
    patch.setattr(PartitionLog, "last_stable_offset_metadata", property(lambda self: self.high_watermark_metadata))


@mutation(THREE_BROKERS)
def aborted_transactions_are_not_named(patch: Patch) -> None:
    patch.setattr(LocalLog, "_aborted", lambda *_: [])


@mutation(THREE_BROKERS)
def an_abort_commits(patch: Patch) -> None:
    real: Any = TransactionCoordinator.end_transaction

    def end(self: Any, *arguments: Any, **named: Any) -> Any:
        given = [True if each is False else each for each in arguments]
        return real(self, *given, **{key: True if each is False else each for key, each in named.items()})

    patch.setattr(TransactionCoordinator, "end_transaction", end)


@mutation(THREE_BROKERS)
def markers_miss_a_partition(patch: Patch) -> None:
    def send(self: Any, metadata: Any, epoch: int, complete: Any) -> None:
        self.markers.send(metadata, epoch, complete, frozenset(sorted(metadata.partitions)[:1]))

    patch.setattr(TransactionCoordinator, "_send_markers", send)


@mutation(THREE_BROKERS)
def a_new_coordinator_forgets_the_transactions(patch: Patch) -> None:
    patch.setattr(state_manager, "_take", lambda loaded, partition, record: None)


@mutation(THREE_BROKERS)
def transactions_never_time_out(patch: Patch) -> None:
    patch.setattr(TransactionCoordinator, "abort_timed_out", lambda self: None)


# -- groups ------------------------------------------------------------------------------------------------------------


@mutation(THREE_BROKERS)
def the_oldest_commit_wins(patch: Patch) -> None:
    real = GroupOffsets._take

    def take(self: Any, partition: Any, commit: Any) -> None:
        if self.get(partition) is None:
            real(self, partition, commit)

    patch.setattr(GroupOffsets, "_take", take)


@mutation(THREE_BROKERS)
def commits_of_old_generations_are_taken(patch: Patch) -> None:
    patch.setattr(ClassicGroup, "commit_error", lambda self, committer: ErrorCode.NONE)


@mutation(THREE_BROKERS)
def a_new_coordinator_forgets_the_commits(patch: Patch) -> None:
    patch.setattr(loader._Filler, "decoded", lambda self, found: ())


@mutation(THREE_BROKERS)
def generations_do_not_grow(patch: Patch) -> None:
    real = ClassicGroup.next_generation

    def begin(self: ClassicGroup) -> None:
        real(self)
        self.generation_id = 1

    patch.setattr(ClassicGroup, "next_generation", begin)


@mutation(THREE_BROKERS)
def generations_are_not_stored(patch: Patch) -> None:
    patch.setattr(GroupWriter, "store_group", lambda self, group, assignment, on_done: on_done(ErrorCode.NONE))


def _add_others() -> None:
    for module in (of_controllers, of_replicas):
        for name, plant in module.MUTATIONS.items():
            MUTATIONS[name] = plant, THREE_BROKERS


_add_others()


def find(name: str, seeds: range) -> tuple[int, str] | None:
    """The first of `seeds` that shows the planted fault, and how it does."""
    plant, plan = MUTATIONS[name]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        for seed in seeds:
            problem = run(seed, plan).problem
            if problem is not None:
                return seed, problem
    return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.real.mutations")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation.real.mutations", *sys.argv[1:]])
    missed = 0
    for each in options.names or MUTATIONS:
        found = find(each, range(options.seeds))
        missed += found is None
        print(f"{each}: " + ("NOT FOUND" if found is None else f"seed {found[0]}: {found[1]}"), flush=True)
    sys.exit(missed)
