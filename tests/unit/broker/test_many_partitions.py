"""What a LeaderAndIsr that makes many partitions costs this broker, in counts: each as much as every other."""

from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path

import pytest

from broker.replication.become_leader_or_follower import RoleChanges
from broker.replication.partition import Partition
from network.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.unit.broker.harness import TOPIC_ID, LeadingBroker


class Counted:
    """Calls of the operating system by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.counts = dict.fromkeys(names, 0)
        for name in names:
            really = getattr(os, name)

            def counted(*args: object, name: str = name, really: object = really, **options: object) -> object:
                self.counts[name] += 1
                return really(*args, **options)  # type: ignore[operator]

            monkeypatch.setattr(os, name, counted)


def lead_many(broker: LeadingBroker, counted: Counted, count: int) -> dict[str, int]:
    """Make this broker leader of new partitions; returns the counts when all have their roles."""
    states = [
        LeaderAndIsrPartitionState(
            partition_index=number,
            leader=1,
            leader_epoch=1,
            isr=[1, 2],
            partition_epoch=1,
            replicas=[1, 2],
            is_new=True,
        )
        for number in range(count)
    ]
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=states)
    request = LeaderAndIsrRequest(controller_id=1, controller_epoch=1, topic_states=[topic])
    then: dict[str, int] = {}

    def changed(leaders: list[Partition], followers: list[Partition]) -> None:
        assert len(leaders) == count
        then.update(counted.counts)

    RoleChanges(broker.manager).become_leader_or_follower(request, 7, changed)
    broker.clock.advance(1)
    return then


def counts(directory: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> tuple[dict[str, int], dict[str, int]]:
    """Calls until all have their roles, and with the background work after that."""
    broker = LeadingBroker(directory)
    with monkeypatch.context() as patched:
        counted = Counted(patched, "fsync", "open", "mkdir", "replace")
        until = lead_many(broker, counted, count)
        broker.scheduler.tick()
        after = dict(counted.counts)
    broker.manager.log_manager.shutdown()
    return until, after


def test_no_partition_waits_for_a_disk_and_the_cost_of_each_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (counts(tmp_path / str(count), monkeypatch, count) for count in (20, 60))
    assert many[0]["fsync"] == few[0]["fsync"] <= 2  # the first checkpoint, of all
    each = {name: (many[0][name] - few[0][name]) / 40 for name in many[0]}
    assert each["mkdir"] == 1
    assert each["open"] <= 5
    # After it: topic id and leader epoch, of which the id alone is synced.
    each = {name: (many[1][name] - few[1][name]) / 40 for name in many[1]}
    assert (each["fsync"], each["replace"]) == (1, 2)


LIMIT_BYTES = 4200
"""3,790 were counted with CPython 3.11."""


def test_an_idle_partition_takes_so_much_of_a_broker_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a replica, objects of Python alone: not the metadata of the cluster, nor what the controller knows."""
    broker = LeadingBroker(tmp_path)
    with monkeypatch.context() as patched:
        counted = Counted(patched, "fsync")
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            lead_many(broker, counted, 500)
            broker.scheduler.tick()
            gc.collect()
            each = (tracemalloc.get_traced_memory()[0] - before) / 500
        finally:
            tracemalloc.stop()
    broker.manager.log_manager.shutdown()
    assert each < LIMIT_BYTES
