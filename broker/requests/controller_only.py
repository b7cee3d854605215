"""The check that starts every API which only the active controller answers.

Orders that come from the controller are checked for its epoch where they are carried out:
`broker/replication/become_leader_or_follower.py`, `broker/api/update_metadata.py`."""

from __future__ import annotations

from typing import Any

from broker.requests.registry import Call
from network.protocol.errors import ApiError, ErrorCode


def is_controller(call: Call[Any]) -> bool:
    """Whether this broker is the active controller."""
    controller = call.broker.controller
    return controller is not None and controller.is_active


def require_controller(call: Call[Any]) -> None:
    """Raises NOT_CONTROLLER on any other broker."""
    if not is_controller(call):
        raise ApiError(ErrorCode.NOT_CONTROLLER)
