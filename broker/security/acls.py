"""ACLs as values: what one says, what a filter asks, and the form in which ZooKeeper keeps them.

A pattern is a resource type, a name and whether the name is meant literally (`*`: every resource of the type) or as a
prefix. An entry allows or denies a principal an operation from a host. Sources: KIP-11, KIP-290, KIP-140.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.requests.authorization import Operation, ResourceType
from network.json_text import parse_json

ANY: Final = 1
MATCH: Final = 2
LITERAL: Final = 3
PREFIXED: Final = 4
ALL_OPERATIONS: Final = 2
DENY: Final = 2
ALLOW: Final = 3

WILDCARD: Final = "*"
EVERYBODY: Final = "User:*"

TYPE_NAMES: Final[dict[int, str]] = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}
"""As Kafka writes them in paths and logs."""

PATTERN_NAMES: Final = {ANY: "ANY", MATCH: "MATCH", LITERAL: "LITERAL", PREFIXED: "PREFIXED"}
PERMISSION_NAMES: Final = {DENY: "Deny", ALLOW: "Allow"}
OPERATION_NAMES: Final[dict[int, str]] = {
    ALL_OPERATIONS: "All",
    **{operation: "".join(word.capitalize() for word in operation.name.split("_")) for operation in Operation},
}

_OPERATIONS = {name.lower(): code for code, name in OPERATION_NAMES.items()}
_PERMISSIONS = {name.lower(): code for code, name in PERMISSION_NAMES.items()}


class Pattern(NamedTuple):
    """What an ACL is about."""

    resource_type: int
    name: str
    pattern_type: int = LITERAL

    @property
    def upper_type(self) -> str:
        """The type in capitals, as in notifications and on the command line."""
        return ResourceType(self.resource_type).name


class Entry(NamedTuple):
    """Who may or may not do what; the principal as `Type:name`, the host as an IP's text or `*`."""

    principal: str
    host: str
    operation: int
    permission: int


class Binding(NamedTuple):
    """One ACL."""

    pattern: Pattern
    entry: Entry


class PatternFilter(NamedTuple):
    """Which patterns are meant. MATCH: those that bear on the resource of this name."""

    resource_type: int = ANY
    name: str | None = None
    pattern_type: int = ANY

    def admits(self, pattern: Pattern) -> bool:
        """Whether the pattern is one of them."""
        if self.resource_type not in (ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (ANY, MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type != MATCH:
            return self.name == pattern.name
        if pattern.pattern_type == LITERAL:
            return pattern.name in (self.name, WILDCARD)
        return self.name.startswith(pattern.name)

    def exact(self) -> list[Pattern]:
        """The patterns that it names in full; empty if it may mean any number."""
        if (
            self.resource_type not in TYPE_NAMES
            or self.name is None
            or self.pattern_type not in (ANY, LITERAL, PREFIXED)
        ):
            return []
        kinds = (LITERAL, PREFIXED) if self.pattern_type == ANY else (self.pattern_type,)
        return [Pattern(self.resource_type, self.name, kind) for kind in kinds]


class EntryFilter(NamedTuple):
    """Which entries are meant: None and ANY mean every one. A principal does not mean `User:*` along with it."""

    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def admits(self, entry: Entry) -> bool:
        """Whether the entry is one of them."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (ANY, entry.operation)
            and self.permission in (ANY, entry.permission)
        )


class BindingFilter(NamedTuple):
    """Which ACLs are meant."""

    pattern: PatternFilter
    entry: EntryFilter

    def admits(self, binding: Binding) -> bool:
        """Whether the ACL is one of them."""
        return self.pattern.admits(binding.pattern) and self.entry.admits(binding.entry)


def check_principal(text: str) -> str:
    """`Type:name`, where the name may hold colons. Raises ValueError for anything else."""
    kind, colon, _ = text.partition(":")
    if not kind or not colon:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return text


def encode_entries(entries: Iterable[Entry]) -> bytes:
    """The data of an ACL znode."""
    acls = [
        {
            "principal": entry.principal,
            "permissionType": PERMISSION_NAMES[entry.permission],
            "operation": OPERATION_NAMES[entry.operation],
            "host": entry.host,
        }
        for entry in sorted(entries)
    ]
    return json.dumps({"version": 1, "acls": acls}, separators=(",", ":"), ensure_ascii=False).encode()


def decode_entries(data: bytes | None) -> frozenset[Entry]:
    """The entries of an ACL znode; none without data. Raises ValueError."""
    if not data:
        return frozenset()
    try:
        payload = parse_json(data)
        if payload["version"] != 1:
            raise ValueError(f"ACLs of version {payload['version']}")
        return frozenset(
            Entry(
                check_principal(acl["principal"]),
                acl["host"],
                _OPERATIONS[acl["operation"].strip().lower()],
                _PERMISSIONS[acl["permissionType"].strip().lower()],
            )
            for acl in payload["acls"]
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"an ACL znode lacks something or has an unknown word: {error}") from error
