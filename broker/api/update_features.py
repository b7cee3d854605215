"""UpdateFeatures (key 57, versions 0-1): controller only. In ZooKeeper mode brokers support no features.

Versions: 1 the kind of a downgrade, and checks without a change (KIP-584).
"""

from __future__ import annotations

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.update_features import UpdateFeaturesRequest


@api(ApiKey.UPDATE_FEATURES, versions=(0, 1))
def handle(call: Call[UpdateFeaturesRequest]) -> None:
    require_cluster(call, Operation.ALTER)
    if not call.broker.is_controller:
        raise ApiError(ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER.message)
    call.broker.controller.update_features(call.request, call.version, call.respond)
