"""AllocateProducerIds (key 67, version 0): a broker asks the controller for a block of producer ids."""

from __future__ import annotations

from broker.requests.cluster_action import require_cluster_action
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest


@api(ApiKey.ALLOCATE_PRODUCER_IDS, versions=(0, 0))
def handle(call: Call[AllocateProducerIdsRequest]) -> None:
    require_cluster_action(call)
    call.broker.controller.allocate_producer_ids(call.request, call.respond)
