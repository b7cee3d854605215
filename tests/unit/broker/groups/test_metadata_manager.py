"""Partitions that are loaded and dropped."""

import pytest

from broker.coordinator.coordinator_log import Batch
from tests.support.groups import PARTITIONS, Coordinator


def test_a_broken_log_leaves_the_partition_owned_and_empty(caplog: pytest.LogCaptureFixture) -> None:
    class BrokenLog(type(Coordinator().log)):  # type: ignore[misc]
        def read(self, partition: int, buffer_bytes: int) -> list[Batch]:
            raise OSError("the disk is gone")

    coordinator = Coordinator(BrokenLog(PARTITIONS))
    assert "could not be loaded" in caplog.text
    assert coordinator.admin.list_groups()[1] == []
    coordinator.commit({"t-0": 1})
    assert coordinator.committed() == {"t-0": 1}


def test_loads_and_unloads_with_older_epochs_are_ignored() -> None:
    coordinator = Coordinator()
    coordinator.commit({"t-0": 1})
    coordinator.elect(5)
    assert coordinator.committed() == {"t-0": 1}
    # It led all the time: what an older epoch ended is over.
    coordinator.resign(4)
    assert coordinator.committed() == {"t-0": 1}
    coordinator.resign(7)
    coordinator.elect(6)
    assert coordinator.admin.describe_group("g").error.name == "NOT_COORDINATOR"
    coordinator.elect(8)
    coordinator.resign(7)
    assert coordinator.committed() == {"t-0": 1}
    coordinator.resign(None)
    assert coordinator.admin.describe_group("g").error.name == "NOT_COORDINATOR"
