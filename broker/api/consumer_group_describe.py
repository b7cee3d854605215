"""ConsumerGroupDescribe (key 69, version 0): groups of KIP-848, which ZooKeeper mode does not have.

Every group is answered UNSUPPORTED_VERSION; clients then ask with DescribeGroups.
"""

from __future__ import annotations

from broker.api.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def _answer(
    call: Call[ConsumerGroupDescribeRequest], code: ErrorCode, message: str | None
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[
            DescribedGroup(group_id=group_id, error_code=code, error_message=message)
            for group_id in call.request.group_ids
        ]
    )


@api(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 0), error_form=_answer)
def handle(call: Call[ConsumerGroupDescribeRequest]) -> ConsumerGroupDescribeResponse:
    return _answer(call, ErrorCode.UNSUPPORTED_VERSION, None)
