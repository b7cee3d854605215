"""ControlledShutdown (key 7, versions 0-3): a broker asks the controller to move its leaderships away.

Versions: 1 a client id in the header; 2 the broker's epoch, by which a request of its former life is refused;
3 flexible.
"""

from __future__ import annotations

from broker.requests.cluster_action import require_broker
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.messages.controlled_shutdown import ControlledShutdownRequest


@api(ApiKey.CONTROLLED_SHUTDOWN, versions=(0, 3))
def handle(call: Call[ControlledShutdownRequest]) -> None:
    require_broker(call)
    call.broker.controller.controlled_shutdown(call.request, call.respond)
