"""CreateAcls (key 30, versions 0-3): add ACLs, each with an answer of its own.

Without an authorizer each is SECURITY_DISABLED.

Versions: 1 pattern types (KIP-290), and a throttled client waits by itself (KIP-219); 2 flexible; 3 resources of type
USER (KIP-373).
"""

from __future__ import annotations

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from broker.security.acl_codes import LITERAL, check_codes
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def _error_form(call: Call[CreateAclsRequest], code: ErrorCode, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=message) for _ in call.request.creations]
    )


@api(ApiKey.CREATE_ACLS, versions=(0, 3), error_form=_error_form)
def handle(call: Call[CreateAclsRequest]) -> CreateAclsResponse:
    for wanted in call.request.creations:
        check_codes(
            call.version,
            wanted.resource_type,
            wanted.resource_pattern_type,
            wanted.operation,
            wanted.permission_type,
            version_0_patterns=(LITERAL,),
        )
    require_cluster(call, Operation.ALTER)
    raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
