"""DeleteAcls (key 31, versions 0-3): remove the ACLs that match filters, each filter with an answer of its own.

Without an authorizer each is SECURITY_DISABLED.

Versions: 1 pattern types (KIP-290), and a throttled client waits by itself (KIP-219); 2 flexible; 3 resources of type
USER (KIP-373).
"""

from __future__ import annotations

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from broker.security.acl_codes import ANY_PATTERN, LITERAL, check_codes
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def _error_form(call: Call[DeleteAclsRequest], code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=code, error_message=message) for _ in call.request.filters]
    )


@api(ApiKey.DELETE_ACLS, versions=(0, 3), error_form=_error_form)
def handle(call: Call[DeleteAclsRequest]) -> DeleteAclsResponse:
    for wanted in call.request.filters:
        check_codes(
            call.version,
            wanted.resource_type_filter,
            wanted.pattern_type_filter,
            wanted.operation,
            wanted.permission_type,
            version_0_patterns=(LITERAL, ANY_PATTERN),
        )
    require_cluster(call, Operation.ALTER)
    raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
