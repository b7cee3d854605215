"""DeleteAcls (key 31, versions 0-3): remove the ACLs that match filters, each filter with an answer of its own.

Without an authorizer that keeps ACLs each is SECURITY_DISABLED. An ACL that several filters mean is listed under the
first.

Versions: 1 pattern types (KIP-290), and a throttled client waits by itself (KIP-219); 2 flexible; 3 resources of type
USER (KIP-373).
"""

from __future__ import annotations

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from broker.security.acl_codes import check_codes, filter_of
from broker.security.acls import ANY, LITERAL, Binding
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


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
            version_0_patterns=(LITERAL, ANY),
        )
    require_cluster(call, Operation.ALTER)
    acls = call.broker.acls
    if acls is None:
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    removed = acls.delete_acls([filter_of(wanted) for wanted in call.request.filters])
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_message=None, matching_acls=[_matching(*each) for each in matching])
            for matching in removed
        ]
    )


def _matching(binding: Binding, error: ApiError | None) -> DeleteAclsMatchingAcl:
    pattern, entry = binding
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
