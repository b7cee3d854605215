from __future__ import annotations

import itertools

import pytest

from network.server import mute

ALLOWED = {
    (mute.NOT_MUTED, mute.MUTE): mute.MUTED,
    (mute.MUTED, mute.REQUEST_RECEIVED): mute.MUTED_AND_RESPONSE_PENDING,
    (mute.MUTED, mute.UNMUTE): mute.NOT_MUTED,
    (mute.MUTED_AND_RESPONSE_PENDING, mute.RESPONSE_SENT): mute.MUTED,
    (mute.MUTED_AND_RESPONSE_PENDING, mute.THROTTLE_STARTED): mute.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING,
    (mute.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, mute.RESPONSE_SENT): mute.MUTED_AND_THROTTLED,
    (mute.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, mute.THROTTLE_ENDED): mute.MUTED_AND_RESPONSE_PENDING,
    (mute.MUTED_AND_THROTTLED, mute.THROTTLE_ENDED): mute.MUTED,
}


def test_every_pair_is_an_allowed_move_or_refused() -> None:
    for state, event in itertools.product(range(len(mute.STATE_NAMES)), range(len(mute.EVENT_NAMES))):
        if (state, event) in ALLOWED:
            assert mute.next_state(state, event) == ALLOWED[state, event]
        else:
            with pytest.raises(mute.InvalidMuteTransition):
                mute.next_state(state, event)
