"""Loading and unloading by leader epoch."""

import pytest

from broker.coordinator.ownership import Ownership
from network.protocol.errors import ErrorCode as E


def loaded(reloads: bool = True, epoch: int = 5) -> Ownership[str]:
    ownership: Ownership[str] = Ownership(reloads=reloads)
    assert ownership.begin_load(0, epoch)
    assert ownership.finish_load(0, epoch, f"at {epoch}")
    return ownership


def test_a_partition_is_loaded_owned_and_unloaded() -> None:
    ownership: Ownership[str] = Ownership(reloads=True)
    assert ownership.error(0) is E.NOT_COORDINATOR
    assert ownership.begin_load(0, 1)
    assert ownership.error(0) is E.COORDINATOR_LOAD_IN_PROGRESS
    assert ownership.is_loading
    assert ownership.finish_load(0, 1, "x")
    assert ownership.error(0) is E.NONE
    assert not ownership.is_loading
    assert ownership.get(0) == (1, "x")
    assert ownership.all() == [(1, "x")]
    assert ownership.unload(0, 2) == "x"
    assert ownership.error(0) is E.NOT_COORDINATOR
    assert ownership.get(0) is None


@pytest.mark.parametrize("reloads", [True, False])
def test_older_epochs_are_ignored(reloads: bool) -> None:
    ownership = loaded(reloads)
    assert not ownership.begin_load(0, 4)
    assert ownership.unload(0, 4) is None
    assert ownership.get(0) == (5, "at 5")
    ownership.unload(0, 7)
    assert not ownership.begin_load(0, 6)
    assert ownership.error(0) is E.NOT_COORDINATOR


def test_a_deleted_replica_goes_whatever_its_epoch_and_may_come_again_at_any() -> None:
    ownership = loaded()
    assert ownership.unload(0, None) == "at 5"
    assert ownership.begin_load(0, 0)
    assert ownership.finish_load(0, 0, "again")
    assert ownership.get(0) == (0, "again")


def test_a_later_epoch_reads_the_partition_again_or_leaves_it_as_it_is() -> None:
    again = loaded(reloads=True)
    assert again.begin_load(0, 6)
    assert again.error(0) is E.COORDINATOR_LOAD_IN_PROGRESS
    stays = loaded(reloads=False)
    assert not stays.begin_load(0, 6)
    assert stays.get(0) == (6, "at 5")
    assert stays.unload(0, 5) is None


@pytest.mark.parametrize("reloads", [True, False])
def test_an_overtaken_load_changes_nothing(reloads: bool) -> None:
    ownership: Ownership[str] = Ownership(reloads=reloads)
    ownership.begin_load(0, 1)
    assert ownership.begin_load(0, 2)
    assert not ownership.finish_load(0, 1, "old")
    ownership.abandon_load(0, 1)
    assert ownership.error(0) is E.COORDINATOR_LOAD_IN_PROGRESS
    assert ownership.finish_load(0, 2, "new")
    ownership.begin_load(1, 1)
    ownership.unload(1, 2)
    assert not ownership.finish_load(1, 1, "gone")
    assert ownership.all() == [(2, "new")]


def test_a_load_that_fails_leaves_the_partition_unowned() -> None:
    ownership: Ownership[str] = Ownership(reloads=True)
    ownership.begin_load(0, 1)
    ownership.abandon_load(0, 1)
    assert ownership.error(0) is E.NOT_COORDINATOR
    assert not ownership.finish_load(0, 1, "late")
