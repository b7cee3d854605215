"""When a connection is read: the mute states and the moves between them, as one table.

A connection is muted as soon as one whole request has been read, and unmuted when its response has been written and
no throttle delay is running. So one request of a connection is in flight at a time, and responses keep the order of
requests. `response_writer.py` and `request_reader.py` act on it.
"""

from __future__ import annotations

from typing import Final

# States. Plain integers: they index the table on the hot path.
NOT_MUTED: Final = 0
MUTED: Final = 1
MUTED_AND_RESPONSE_PENDING: Final = 2
MUTED_AND_THROTTLED: Final = 3
MUTED_AND_THROTTLED_AND_RESPONSE_PENDING: Final = 4

# Events.
MUTE: Final = 0
REQUEST_RECEIVED: Final = 1
RESPONSE_SENT: Final = 2
THROTTLE_STARTED: Final = 3
THROTTLE_ENDED: Final = 4
UNMUTE: Final = 5

STATE_NAMES: Final = (
    "NOT_MUTED",
    "MUTED",
    "MUTED_AND_RESPONSE_PENDING",
    "MUTED_AND_THROTTLED",
    "MUTED_AND_THROTTLED_AND_RESPONSE_PENDING",
)
EVENT_NAMES: Final = ("MUTE", "REQUEST_RECEIVED", "RESPONSE_SENT", "THROTTLE_STARTED", "THROTTLE_ENDED", "UNMUTE")

_MOVES: Final[dict[int, dict[int, int]]] = {
    MUTE: {NOT_MUTED: MUTED},
    REQUEST_RECEIVED: {MUTED: MUTED_AND_RESPONSE_PENDING},
    RESPONSE_SENT: {
        MUTED_AND_RESPONSE_PENDING: MUTED,
        MUTED_AND_THROTTLED_AND_RESPONSE_PENDING: MUTED_AND_THROTTLED,
    },
    THROTTLE_STARTED: {MUTED_AND_RESPONSE_PENDING: MUTED_AND_THROTTLED_AND_RESPONSE_PENDING},
    THROTTLE_ENDED: {
        MUTED_AND_THROTTLED: MUTED,
        MUTED_AND_THROTTLED_AND_RESPONSE_PENDING: MUTED_AND_RESPONSE_PENDING,
    },
    UNMUTE: {MUTED: NOT_MUTED},
}

REFUSED: Final = -1

TRANSITIONS: Final[tuple[tuple[int, ...], ...]] = tuple(
    tuple(_MOVES[event].get(state, REFUSED) for state in range(len(STATE_NAMES))) for event in range(len(EVENT_NAMES))
)
"""`TRANSITIONS[event][state]` is the next state, or `REFUSED`."""


class InvalidMuteTransition(Exception):
    """An event that the current state does not allow; an internal error, so the connection is closed."""


def next_state(state: int, event: int) -> int:
    """The state after `event`. Raises `InvalidMuteTransition`."""
    target = TRANSITIONS[event][state]
    if target == REFUSED:
        raise InvalidMuteTransition(f"{EVENT_NAMES[event]} in state {STATE_NAMES[state]}")
    return target
