"""The gauges of a partition: what they tell of a leader and of a follower, and how long they are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.broker.harness import LeadingBroker

NAMES = ("UnderReplicated", "InSyncReplicasCount", "ReplicasCount", "UnderMinIsr", "AtMinIsr", "LastStableOffsetLag")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LeadingBroker]:
    """With min.insync.replicas=2."""
    made = LeadingBroker(tmp_path, min_isr=2)
    yield made
    made.delayed.shutdown()


def gauges(broker: LeadingBroker) -> dict[str, float]:
    """What is registered of partition 0."""
    found = {}
    for key, _ in broker.metrics.items():
        if (key.group, key.type) == ("kafka.cluster", "Partition"):
            assert key.tags == (("topic", "t"), ("partition", "0"))
            found[key.name] = broker.metrics.value(key.group, key.type, key.name, topic="t", partition="0")
    return found


def told(broker: LeadingBroker) -> list[float]:
    found = gauges(broker)
    return [found.pop(name) for name in NAMES]


def test_a_leader_tells_of_its_isr(broker: LeadingBroker) -> None:
    assert gauges(broker) == {}
    broker.lead([1, 2])
    assert set(gauges(broker)) == set(NAMES)
    assert told(broker) == [0, 2, 2, 0, 1, 0]
    broker.lead([1], epoch=2)
    assert told(broker) == [1, 1, 2, 1, 0, 0]


def test_replicas_that_are_being_added_count_in_the_isr_only(broker: LeadingBroker) -> None:
    broker.obey(1, [1, 2, 3], 1, adding=[3])
    assert told(broker) == [0, 3, 2, 0, 0, 0]


def test_a_follower_tells_nothing_of_it(broker: LeadingBroker) -> None:
    broker.lead([1])
    broker.obey(2, [2], 2)
    assert told(broker) == [0, 0, 0, 0, 0, 0]


def test_offsets_that_a_transaction_holds_back(broker: LeadingBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.lead([1, 2])
    broker.append()
    broker.fetch(1)
    monkeypatch.setattr(type(broker.partition.log), "last_stable_offset", 0)
    assert told(broker)[-1] == 1


def test_they_go_with_the_partition_and_come_back_with_it(broker: LeadingBroker) -> None:
    broker.lead([1, 2])
    broker.delete()
    assert gauges(broker) == {}
    broker.lead([1, 2])
    assert told(broker)[:3] == [0, 2, 2]


def test_they_go_with_its_log_directory(broker: LeadingBroker) -> None:
    broker.lead([1, 2])
    broker.manager.handle_log_dir_failure(broker.directory)
    assert gauges(broker) == {}
