"""ConsumerGroupHeartbeat (key 68, version 0): the group protocol of KIP-848, which ZooKeeper mode does not serve.

Advertised all the same, as Kafka does, and always answered UNSUPPORTED_VERSION; clients then use the classic protocol.
"""

from __future__ import annotations

from broker.api.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


@api(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 0))
def handle(call: Call[ConsumerGroupHeartbeatRequest]) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
