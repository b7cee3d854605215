"""Committing, fetching and deleting offsets: who may when."""

import pytest

from broker.groups.base import GroupBase
from broker.groups.offsets.committer import Committer, TransactionalProducer
from network.protocol.errors import ErrorCode as E
from tests.support.groups import Coordinator, partition, subscription

PRODUCER = TransactionalProducer(7, 0, "tx")


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_a_simple_consumer_commits_without_a_group(coordinator: Coordinator) -> None:
    results = coordinator.commit({"t-0": 5, "t-1": 6}).value
    assert set(results.values()) == {E.NONE}
    assert coordinator.committed() == {"t-0": 5, "t-1": 6}
    assert coordinator.state() == "Empty"
    error, found = coordinator.offsets.fetch("g", [partition("t-0"), partition("x-9")])
    assert error is E.NONE
    assert [fetched.value.offset for fetched in found.values()] == [5, -1]
    assert coordinator.offsets.fetch("unknown", [partition("t-0")])[1][partition("t-0")].value.offset == -1


@pytest.mark.parametrize("when", ["before it is looked up", "before its lock is taken"])
def test_a_group_moves_while_its_offsets_are_fetched(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Its offsets are elsewhere: a consumer that is told that there are none begins anew."""
    coordinator.commit({"t-0": 5})
    find = coordinator.owned.find

    def find_while_it_moves(group_id: str) -> GroupBase | None:
        group = find(group_id)
        coordinator.resign()
        return group if when == "before its lock is taken" else find(group_id)

    monkeypatch.setattr(coordinator.owned, "find", find_while_it_moves)
    assert coordinator.offsets.fetch("g", [partition("t-0")]) == (E.NOT_COORDINATOR, {})


def test_members_commit_in_their_generation_only(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable()
    committer = Committer("g", member.member_id, None, member.generation_id)
    assert coordinator.commit({"t-0": 1}, committer).value == {partition("t-0"): E.NONE}
    for wrong, error in [
        (committer._replace(generation_id=9), E.ILLEGAL_GENERATION),
        (committer._replace(generation_id=-1), E.ILLEGAL_GENERATION),
        (committer._replace(member_id="x"), E.UNKNOWN_MEMBER_ID),
        (committer._replace(group_instance_id="i"), E.UNKNOWN_MEMBER_ID),
        (Committer("g"), E.UNKNOWN_MEMBER_ID),
        (Committer("new", generation_id=3), E.ILLEGAL_GENERATION),
    ]:
        assert coordinator.commit({"t-0": 2}, wrong).value == {partition("t-0"): error}
    # While preparing, members may still save what they did; between join and sync they may not.
    waiting = coordinator.join()
    assert coordinator.commit({"t-0": 3}, committer).value == {partition("t-0"): E.NONE}
    again = coordinator.join(member.member_id).value
    assert waiting.done
    committer = committer._replace(generation_id=again.generation_id)
    assert coordinator.commit({"t-0": 4}, committer).value == {partition("t-0"): E.REBALANCE_IN_PROGRESS}
    assert coordinator.committed() == {"t-0": 3}


def test_a_commit_keeps_the_session_alive(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable()
    committer = Committer("g", member.member_id, None, member.generation_id)
    for _ in range(5):
        coordinator.advance(9_000, 1_000)
        assert coordinator.commit({"t-0": 1}, committer).value == {partition("t-0"): E.NONE}
    assert coordinator.heartbeat(member) is E.NONE


def test_an_empty_group_takes_anonymous_commits(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable()
    coordinator.advance(11_000)
    assert coordinator.state() == "Empty"
    assert coordinator.commit({"t-0": 9}).value == {partition("t-0"): E.NONE}
    late = Committer("g", member.member_id, None, member.generation_id)
    assert coordinator.commit({"t-0": 1}, late).value == {partition("t-0"): E.UNKNOWN_MEMBER_ID}


def test_members_are_checked_in_transactions_too(coordinator: Coordinator) -> None:
    (member,) = coordinator.stable()
    zombie = Committer("g", member.member_id, None, member.generation_id - 1)
    refused = coordinator.commit({"t-0": 1}, zombie, PRODUCER).value
    assert refused == {partition("t-0"): E.ILLEGAL_GENERATION}
    assert coordinator.commit({"t-0": 1}, Committer("g"), PRODUCER).value == {partition("t-0"): E.NONE}


def test_deleting_offsets(coordinator: Coordinator) -> None:
    assert coordinator.offsets.delete("g", [partition("t-0")])[0] is E.GROUP_ID_NOT_FOUND
    (member,) = coordinator.stable(protocols=(("range", subscription("t")),))
    committer = Committer("g", member.member_id, None, member.generation_id)
    coordinator.commit({"t-0": 1, "u-0": 2}, committer)
    error, results = coordinator.offsets.delete("g", [partition("t-0"), partition("u-0")])
    assert (error, list(results.values())) == (E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE])
    assert coordinator.committed() == {"t-0": 1}
    assert coordinator.log.entries()[-1][1] is None
    assert coordinator.log.acks[-1] == 0
    coordinator.advance(11_000)
    assert coordinator.offsets.delete("g", [partition("t-0")])[1] == {partition("t-0"): E.NONE}
    assert coordinator.committed() == {}


def test_deleting_offsets_of_another_kind_of_group(coordinator: Coordinator) -> None:
    coordinator.stable(protocol_type="connect")
    assert coordinator.offsets.delete("g", [partition("t-0")])[0] is E.NON_EMPTY_GROUP
