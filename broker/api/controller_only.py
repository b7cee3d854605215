"""The check that starts every API which only the active controller answers."""

from __future__ import annotations

from typing import Any

from broker.api.registry import Call
from network.protocol.errors import ApiError, ErrorCode


def require_controller(call: Call[Any]) -> None:
    """Raises NOT_CONTROLLER on any other broker."""
    controller = call.broker.controller
    if controller is None or not controller.is_active:
        raise ApiError(ErrorCode.NOT_CONTROLLER)
