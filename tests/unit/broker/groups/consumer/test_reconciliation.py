"""Every row of the reconciliation table, and members that always get where they should."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.groups.consumer.assignors.spec import NO_PARTITIONS, Partitions, TopicIdPartition
from broker.groups.consumer.model import CurrentAssignment, MemberState
from broker.groups.consumer.reconciliation import reconcile
from network.protocol.errors import ApiError, ErrorCode

TOPIC = bytes(range(16))
STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS


def parts(*numbers: int) -> Partitions:
    return frozenset(TopicIdPartition(TOPIC, number) for number in numbers)


def step(
    current: CurrentAssignment,
    epoch: int,
    target: Partitions,
    owned: Partitions | None = None,
    taken: Partitions = NO_PARTITIONS,
) -> CurrentAssignment:
    return reconcile(current, epoch, target, owned, lambda partition: partition not in taken)


def test_a_stable_member_at_the_target_epoch_stays() -> None:
    current = CurrentAssignment(5, 4, STABLE, parts(1))
    assert step(current, 5, parts(1, 2)) is current


def test_a_new_member_gets_what_is_free() -> None:
    after = step(CurrentAssignment(), 3, parts(1, 2))
    assert after == CurrentAssignment(3, 0, STABLE, parts(1, 2))


def test_a_new_member_waits_for_what_others_hold() -> None:
    after = step(CurrentAssignment(), 3, parts(1, 2), taken=parts(2))
    assert after == CurrentAssignment(3, 0, UNRELEASED, parts(1))
    assert step(after, 3, parts(1, 2), taken=parts(2)) is after
    assert step(after, 3, parts(1, 2)) == CurrentAssignment(3, 3, STABLE, parts(1, 2))


def test_revocation_comes_first_and_keeps_the_epoch() -> None:
    before = CurrentAssignment(3, 2, STABLE, parts(1, 2))
    told = step(before, 4, parts(2, 3))
    assert told == CurrentAssignment(3, 3, UNREVOKED, parts(2), parts(1))
    assert step(told, 4, parts(2, 3), owned=None) is told
    assert step(told, 4, parts(2, 3), owned=parts(1, 2)) is told
    assert step(told, 4, parts(2, 3), owned=parts(2)) == CurrentAssignment(4, 3, STABLE, parts(2, 3))


def test_what_the_member_does_not_own_any_more_need_not_be_revoked() -> None:
    before = CurrentAssignment(3, 2, STABLE, parts(1, 2))
    assert step(before, 4, parts(2), owned=parts(2)) == CurrentAssignment(4, 3, STABLE, parts(2))


def test_a_newer_target_while_revoking_is_taken_up_after_that() -> None:
    told = CurrentAssignment(3, 3, UNREVOKED, parts(2), parts(1))
    again = step(told, 7, parts(5), owned=parts(2))
    assert again == CurrentAssignment(4, 3, UNREVOKED, NO_PARTITIONS, parts(2))
    assert step(again, 7, parts(5), owned=parts()) == CurrentAssignment(7, 4, STABLE, parts(5))


def test_a_newer_target_while_waiting_may_take_partitions_away() -> None:
    waiting = CurrentAssignment(3, 2, UNRELEASED, parts(1))
    assert step(waiting, 4, parts(9)) == CurrentAssignment(3, 3, UNREVOKED, NO_PARTITIONS, parts(1))


def test_an_unknown_state_needs_a_member_without_partitions() -> None:
    unknown = CurrentAssignment(3, 2, MemberState.UNKNOWN, parts(1))
    for owned in (None, parts(1)):
        with pytest.raises(ApiError) as raised:
            step(unknown, 6, parts(1), owned=owned)
        assert raised.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert step(unknown, 6, parts(1), owned=parts()) == CurrentAssignment(6, 3, STABLE, parts(1))


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_members_get_their_targets_and_never_share_a_partition(data: st.DataObject) -> None:
    """Targets change at any time, members answer in any order, slowly, and all arrive in the end."""
    names = ["a", "b", "c"]
    current = dict.fromkeys(names, CurrentAssignment())
    client: dict[str, Partitions] = dict.fromkeys(names, NO_PARTITIONS)
    epoch, target = 0, dict.fromkeys(names, NO_PARTITIONS)

    def beat(name: str, tells: bool) -> None:
        held = {each: owner for owner in names for each in current[owner].held}
        before = current[name]
        after = current[name] = reconcile(
            before, epoch, target[name], client[name] if tells else None, lambda each: each not in held
        )
        client[name] = client[name] & after.assigned if data.draw(st.booleans()) else client[name]
        client[name] |= after.assigned - before.assigned
        for other in names:
            if other != name:
                assert not client[name] & client[other], "two members own a partition"
                assert not current[name].held & current[other].held

    for _ in range(data.draw(st.integers(1, 5))):
        epoch += 1
        owners = {number: data.draw(st.sampled_from([None, *names])) for number in range(5)}
        target = {name: parts(*(n for n, owner in owners.items() if owner == name)) for name in names}
        for name in data.draw(st.lists(st.sampled_from(names), max_size=6)):
            beat(name, data.draw(st.booleans()))
    for _ in range(20):
        for name in names:
            client[name] &= current[name].assigned
            beat(name, True)
    for name in names:
        assert current[name].assigned == target[name]
        assert (current[name].state, current[name].epoch) == (STABLE, epoch)
