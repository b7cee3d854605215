"""AlterPartition (key 56, versions 0-3): a leader asks the controller to change an ISR.

Versions: 1 leader recovery state (KIP-704); 2 topics by id; 3 broker epochs of the new ISR, of which old ones are
refused (KIP-903).
"""

from __future__ import annotations

from broker.requests.cluster_action import require_broker
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.messages.alter_partition import AlterPartitionRequest


@api(ApiKey.ALTER_PARTITION, versions=(0, 3))
def handle(call: Call[AlterPartitionRequest]) -> None:
    require_broker(call)
    call.broker.controller.alter_partition(call.request, call.version, call.respond)
