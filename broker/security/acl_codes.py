"""What the ACL requests have in common: codes that no broker can make sense of, and filters."""

from __future__ import annotations

from broker.requests.registry import RefusedError
from broker.security.acls import BindingFilter, EntryFilter, PatternFilter
from network.protocol.messages.delete_acls import DeleteAclsFilter
from network.protocol.messages.describe_acls import DescribeAclsRequest

UNKNOWN = 0


def check_codes(
    version: int,
    resource_type: int,
    pattern_type: int,
    operation: int,
    permission: int,
    *,
    version_0_patterns: tuple[int, ...],
) -> None:
    """Raises `RefusedError`, which closes the connection, for a code that means UNKNOWN.

    Codes beyond the last known one are read as UNKNOWN, too, but are let through: Kafka looks for the 0 alone.
    Version 0 has no field for the pattern, so it never differs from `version_0_patterns`.
    """
    if UNKNOWN in (resource_type, pattern_type, operation, permission):
        raise RefusedError("an ACL filter or binding has an UNKNOWN element")
    if version == 0 and pattern_type not in version_0_patterns:
        raise RefusedError(f"version 0 of the ACL requests has no pattern type {pattern_type}")


def filter_of(wanted: DescribeAclsRequest | DeleteAclsFilter) -> BindingFilter:
    """The filter of a request as a value."""
    return BindingFilter(
        PatternFilter(wanted.resource_type_filter, wanted.resource_name_filter, wanted.pattern_type_filter),
        EntryFilter(wanted.principal_filter, wanted.host_filter, wanted.operation, wanted.permission_type),
    )
