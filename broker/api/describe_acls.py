"""DescribeAcls (key 29, versions 0-3): the ACLs that match a filter.

Without an authorizer that keeps ACLs there are none to describe: SECURITY_DISABLED, which clients such as MirrorMaker
know to ignore.

Versions: 1 pattern types (KIP-290), and a throttled client waits by itself (KIP-219); 2 flexible; 3 resources of type
USER (KIP-373).
"""

from __future__ import annotations

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from broker.security.acl_codes import check_codes, filter_of
from broker.security.acls import ANY, LITERAL
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


@api(ApiKey.DESCRIBE_ACLS, versions=(0, 3))
def handle(call: Call[DescribeAclsRequest]) -> DescribeAclsResponse:
    request = call.request
    check_codes(
        call.version,
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
        version_0_patterns=(LITERAL, ANY),
    )
    require_cluster(call, Operation.DESCRIBE)
    acls = call.broker.acls
    if acls is None:
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    return DescribeAclsResponse(
        error_message="",
        resources=[
            DescribeAclsResource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=[
                    AclDescription(
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                    for entry in entries
                ],
            )
            for pattern, entries in acls.acls(filter_of(request)).items()
        ],
    )
