"""The table of group states."""

from itertools import product

import pytest

from broker.groups.classic.group import Group
from broker.groups.classic.states import VALID_PREVIOUS, GroupState, IllegalTransitionError
from timer.clock import ManualClock

ALLOWED = {
    ("PreparingRebalance", "Empty"),
    ("Stable", "PreparingRebalance"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("Empty", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("CompletingRebalance", "Stable"),
    ("Stable", "Dead"),
    ("PreparingRebalance", "Dead"),
    ("CompletingRebalance", "Dead"),
    ("Empty", "Dead"),
    ("Dead", "Dead"),
}


@pytest.mark.parametrize(("before", "after"), list(product(GroupState, GroupState)))
def test_every_transition_is_allowed_or_refused_without_effect(before: GroupState, after: GroupState) -> None:
    clock = ManualClock()
    group = Group("g", clock, before)
    clock.advance(5)
    if (before.value, after.value) in ALLOWED:
        group.transition_to(after)
        assert group.state is after
        assert group.current_state_timestamp == clock.wall_ms()
    else:
        with pytest.raises(IllegalTransitionError, match=before.value):
            group.transition_to(after)
        assert group.state is before
        assert group.current_state_timestamp == clock.wall_ms() - 5


def test_the_table_has_every_state_and_says_who_may_rebalance() -> None:
    assert set(VALID_PREVIOUS) == set(GroupState)
    may = {state.value for state in GroupState if Group("g", ManualClock(), state).can_rebalance}
    assert may == {"Stable", "CompletingRebalance", "Empty"}
