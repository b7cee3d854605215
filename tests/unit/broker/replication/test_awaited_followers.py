"""A follower whose fetch waits hears at once that it should ask for more, and waits shortly until it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.replication.awaited_followers import SHORT_WAIT_MS
from broker.replication.become_leader_or_follower import RoleChanges
from broker.replication.results import FetchParams, FetchPartitionData, LogReadResult
from log.fetch_data import FetchIsolation
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.unit.broker.harness import TOPIC_ID, TP, LeadingBroker

NEXT = TopicPartition("t", 1)
Answers = list[list[tuple[TopicPartition, LogReadResult]]]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LeadingBroker]:
    """It has led partition 0 for long, and broker 2 follows."""
    made = LeadingBroker(tmp_path)
    made.lead([1, 2])
    fetch(made, TP)
    wait(made, 501)
    yield made
    made.delayed.shutdown()


def fetch(broker: LeadingBroker, *partitions: TopicPartition, replica: int = 2) -> Answers:
    answers: Answers = []
    params = FetchParams(17, replica, 7, 500, 1, 1 << 20, FetchIsolation.LOG_END)
    data = FetchPartitionData(TOPIC_ID, 0, 0, 1 << 20, 1, -1)
    broker.manager.fetch_messages(params, [(tp, data) for tp in partitions], answers.append)
    return answers


def wait(broker: LeadingBroker, ms: int) -> None:
    broker.clock.advance(ms)
    while broker.delayed.fetch.step():
        pass


def obey(broker: LeadingBroker, leader: int, epoch: int = 1) -> None:
    """LeaderAndIsr for partition 1."""
    state = LeaderAndIsrPartitionState(
        partition_index=1, leader=leader, leader_epoch=epoch, isr=[1, 2], partition_epoch=epoch, replicas=[1, 2],
        is_new=True,
    )  # fmt: skip
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[state])
    request = LeaderAndIsrRequest(controller_id=1, controller_epoch=1, topic_states=[topic])
    RoleChanges(broker.manager).become_leader_or_follower(request, 7, lambda leaders, followers: None)


def test_a_wait_of_the_follower_ends_when_this_broker_leads_more(broker: LeadingBroker) -> None:
    waiting, of_consumer, of_other = fetch(broker, TP), fetch(broker, TP, replica=-1), fetch(broker, TP, replica=3)
    of_other.clear()  # an error at once: it is no replica
    assert not waiting
    obey(broker, 1)
    ((_, result),) = waiting[0]
    assert (result.error, result.size) == (ErrorCode.NONE, 0)
    assert not of_consumer


def test_waits_are_short_until_it_asks_for_what_it_should(broker: LeadingBroker) -> None:
    obey(broker, 1)
    waiting = fetch(broker, TP)
    broker.delayed.check_all(TP)
    assert not waiting  # a short wait is one
    wait(broker, SHORT_WAIT_MS + 1)
    assert len(waiting) == 1
    both = fetch(broker, TP, NEXT)
    wait(broker, SHORT_WAIT_MS + 1)
    assert not both
    wait(broker, 500)
    assert len(both) == 1


def test_short_waits_come_to_an_end(broker: LeadingBroker) -> None:
    obey(broker, 1)
    broker.clock.advance(500)
    waiting = fetch(broker, TP)
    wait(broker, SHORT_WAIT_MS + 1)
    assert not waiting


@pytest.mark.parametrize("why", ["it leads no more", "the follower is dead", "it led before"])
def test_nobody_is_awaited(broker: LeadingBroker, why: str) -> None:
    if why == "it leads no more":
        obey(broker, 1)
        obey(broker, 2, epoch=2)
    elif why == "the follower is dead":
        broker.alive(1)
        obey(broker, 1)
    else:
        obey(broker, 1)
        fetch(broker, TP, NEXT)
        waiting = fetch(broker, TP)
        obey(broker, 1, epoch=2)
        assert not waiting
    assert not broker.manager.awaited.is_awaited(2)
