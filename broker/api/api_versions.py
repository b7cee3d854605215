"""ApiVersions (key 18, versions 0-4): what this broker serves.

Answers from the handler table, in ascending order of keys, so nothing unbuilt is advertised. A version above 4 is
answered in version 0 with UNSUPPORTED_VERSION and the one range a client needs to try again. From version 3 the client
names its software, which is remembered with the connection.

Versions: 1 throttle time; 2 a throttled client waits by itself (KIP-219); 3 flexible, the client's software (KIP-511)
and features (KIP-584); 4 features whose lowest level is 0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)

if TYPE_CHECKING:
    from broker.requests.context import BrokerContext
    from network.server.connection_info import ConnectionInfo

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@api(ApiKey.API_VERSIONS, versions=(0, 4))
def handle(call: Call[ApiVersionsRequest | None]) -> ApiVersionsResponse:
    return answer(call.broker, call.connection, call.version, call.request)


def answer(
    broker: BrokerContext, connection: ConnectionInfo, version: int, request: ApiVersionsRequest | None
) -> ApiVersionsResponse:
    """Also for a client that has not authenticated yet. Raises `ApiError`."""
    if request is None:  # a version this broker does not know; the network layer answers it as version 0
        low, high = broker.served_versions[ApiKey.API_VERSIONS]
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high)],
        )
    if version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if _SOFTWARE.fullmatch(text) is None:
                raise ApiError(ErrorCode.INVALID_REQUEST)
        connection.software_name = request.client_software_name
        connection.software_version = request.client_software_version
    features = broker.features
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(broker.served_versions.items())
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(features.levels.items())
        ],
    )
