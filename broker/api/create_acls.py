"""CreateAcls (key 30, versions 0-3): add ACLs, each with an answer of its own.

Without an authorizer that keeps ACLs each is SECURITY_DISABLED. One that is there already is no error.

Versions: 1 pattern types (KIP-290), and a throttled client waits by itself (KIP-219); 2 flexible; 3 resources of type
USER (KIP-373).
"""

from __future__ import annotations

from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from broker.security.acl_codes import check_codes
from broker.security.acls import ANY, LITERAL, MATCH, Binding, Entry, Pattern
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse


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
    acls = call.broker.acls
    if acls is None:
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    bindings = [_binding(wanted) for wanted in call.request.creations]
    errors: list[ApiError | None] = [_fault(binding.pattern) for binding in bindings]
    valid = [number for number, error in enumerate(errors) if error is None]
    for number, error in zip(valid, acls.create_acls([bindings[number] for number in valid]), strict=True):
        errors[number] = error
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_message="")
            if error is None
            else AclCreationResult(error_code=error.code, error_message=error.message)
            for error in errors
        ]
    )


def _binding(wanted: AclCreation) -> Binding:
    """Raises ApiError for what only a filter may say, which fails the request as a whole."""
    codes = (wanted.resource_type, wanted.resource_pattern_type, wanted.operation, wanted.permission_type)
    if ANY in codes or wanted.resource_pattern_type == MATCH:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return Binding(
        Pattern(wanted.resource_type, wanted.resource_name, wanted.resource_pattern_type),
        Entry(wanted.principal, wanted.host, wanted.operation, wanted.permission_type),
    )


def _fault(pattern: Pattern) -> ApiError | None:
    if pattern.resource_type == ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return ApiError(ErrorCode.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    return ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name") if not pattern.name else None
