"""Faults planted in whole brokers: each breaks one promise, and clients' histories have to show it.

Those of the controller and of the replicas by themselves are planted here, too (`tests/simulation/mutations.py` and
`replica_mutations.py`); those in groups of the consumer protocol are in `consumer_mutations.py`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from broker.coordinator.internal_topic import InternalTopic
from broker.groups.classic.group import ClassicGroup
from broker.groups.offsets.group_offsets import GroupOffsets
from broker.groups.records import loader
from broker.groups.records.writer import GroupWriter
from broker.replication import become_leader_or_follower
from broker.replication.partition import Partition
from broker.transactions import state_manager
from broker.transactions.coordinator import TransactionCoordinator
from log import appends, local_log, partition_log
from log.cleaner import swap
from log.cleaner.offset_map import OffsetMap
from log.cleaner.survivors import RetentionRules
from log.files import checkpoint
from log.files.file_records import FileRecords
from log.files.index_file import IndexFile
from log.local_log import LocalLog
from log.management import recovery
from log.partition_log import PartitionLog
from log.producer_entry import ProducerAppendInfo, ProducerStateEntry
from log.producer_state import ProducerStateManager
from network.protocol.errors import ErrorCode
from tests.simulation import mutations as of_controllers
from tests.simulation import replica_mutations as of_replicas
from tests.simulation.real import consumer_mutations as of_consumers
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
def earlier_batches_are_not_looked_for(patch: Patch) -> None:
    patch.setattr(appends, "recall_earlier_batches", lambda entry, segments: None)


@mutation(ONE_BROKER)
def recovery_forgets_the_producers(patch: Patch) -> None:
    patch.setattr(recovery, "load_producers", lambda producers, batches: None)
    patch.setattr(ProducerStateManager, "_load", lambda self, log_start_offset, now_ms: None)
    for name in dir(recovery):
        found = getattr(recovery, name)
        if isinstance(found, type) and "_producer" in vars(found):
            patch.setattr(found, "_producer", lambda self, batch, producers: None)


@mutation(ONE_BROKER)
def names_are_not_synced(patch: Patch) -> None:
    """Of new segments and directories: what is in them is on the disk, and nothing leads to it."""
    for module in (local_log, partition_log, swap, checkpoint):
        patch.setattr(module, "fsync_directory", lambda path: None)


@mutation(THREE_BROKERS)
def a_clean_stop_does_not_sync(patch: Patch) -> None:
    patch.setattr(FileRecords, "flush", lambda self: True)
    patch.setattr(IndexFile, "flush", lambda self: None)


# -- the cleaner -------------------------------------------------------------------------------------------------------


@mutation(THREE_BROKERS)
def the_newest_record_of_a_key_goes_too(patch: Patch) -> None:
    real = RetentionRules._keep
    patch.setattr(
        RetentionRules,
        "_keep",
        lambda self, batch, offset, key, has_value: (
            real(self, batch, offset, key, has_value)
            and (offset > self.offsets.latest_offset or offset != self.offsets.get(key))
        ),
    )


@mutation(THREE_BROKERS)
def an_older_record_of_a_key_wins(patch: Patch) -> None:
    """The map of offsets keeps the first that it is told, and what comes after that goes."""
    real = OffsetMap.put

    def put(self: OffsetMap, key: bytes, offset: int) -> None:
        if self.get(key) < 0:
            real(self, key, offset)

    patch.setattr(OffsetMap, "put", put)
    patch.setattr(
        RetentionRules,
        "_keep",
        lambda self, batch, offset, key, has_value: (
            offset > self.offsets.latest_offset or self.offsets.get(key) in (-1, offset)
        ),
    )


@mutation(THREE_BROKERS)
def tombstones_go_before_what_they_hide(patch: Patch) -> None:
    """Those that are met are dropped, whatever the map says of older records."""
    real = RetentionRules._keep
    patch.setattr(
        RetentionRules,
        "_keep",
        lambda self, batch, offset, key, has_value: (
            has_value and (real(self, batch, offset, key, has_value) or offset + 12 > self.offsets.get(key))
        ),
    )


# -- replication -------------------------------------------------------------------------------------------------------


@mutation(THREE_BROKERS)
def acks_all_waits_for_nobody(patch: Patch) -> None:
    """What is acknowledged is only the leader's, and the reader sees it: the next leader may not have it."""

    def enough(self: Partition, required_offset: int) -> tuple[bool, ErrorCode]:
        return self.leader_log() is not None, ErrorCode.NONE

    patch.setattr(Partition, "has_enough_replicas", enough)


@mutation(THREE_BROKERS)
def brokers_obey_old_controllers(patch: Patch) -> None:
    patch.setattr(become_leader_or_follower, "is_of_older_controller", lambda request, known_epoch: False)


@mutation(THREE_BROKERS)
def leaders_answer_in_any_epoch(patch: Patch) -> None:
    """One that was replaced and does not know it serves those that do."""
    real = Partition.local_log
    patch.setattr(
        Partition,
        "local_log",
        lambda self, current_leader_epoch, *, require_leader: real(self, -1, require_leader=require_leader),
    )


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
def coordinators_load_what_is_not_committed(patch: Patch) -> None:
    patch.setattr(InternalTopic, "is_committed", lambda self, partition: True)


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


OF_THE_MODEL = (
    "brokers_obey_old_controllers_and_epochs",
    "high_watermark_forgets_the_pending_isr",
    "high_watermark_is_the_leaders_log_end",
    "a_lagging_follower_joins_the_isr",
    "a_diverging_fetch_counts_as_progress",
    "an_old_leader_serves_fetches_of_newer_epochs",
    "leaders_forget_that_they_were_replaced",
)
"""Planted in `BrokerModel`, which no whole broker has; each has its like here."""


def _add_others() -> None:
    for module in (of_consumers, of_controllers, of_replicas):
        for name, plant in module.MUTATIONS.items():
            if name not in OF_THE_MODEL:
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
