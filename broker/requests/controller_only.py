"""The check that starts every API which only the active controller answers.

Orders that come from the controller are checked for its epoch where they are carried out:
`broker/replication/become_leader_or_follower.py`, `broker/api/update_metadata.py`."""

from __future__ import annotations

from typing import Any

from broker.requests.registry import Call
from network.protocol.errors import ApiError, ErrorCode


def require_controller(call: Call[Any]) -> None:
    """Raises NOT_CONTROLLER on any other broker."""
    if not call.broker.is_controller:
        raise ApiError(ErrorCode.NOT_CONTROLLER)
