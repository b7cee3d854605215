"""Decides by ACLs: an index and the rules, no I/O.

An operation on a resource is denied if an ACL that bears on the resource denies it, else allowed if one allows it or an
operation that implies it. An ACL bears on a resource if its pattern is the name itself, `*`, or a prefix of the name;
its principal that of the caller or `User:*`; its host the caller's or `*`; its operation the one asked for, or ALL.

The index has for each (resource type, principal, host) the patterns by name, each with two bit fields: what is allowed
and what is denied. A caller is one of four such subjects, so a decision takes four lookups, and in those that exist one
by name, one by `*` and one for each length that prefixes have. Decisions are kept until the next change.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

from broker.requests.authorization import Operation
from broker.security.acls import (
    ALL_OPERATIONS,
    ALLOW,
    EVERYBODY,
    LITERAL,
    WILDCARD,
    Entry,
    Pattern,
)

KEPT_DECISIONS: Final = 20_000
"""When there are as many, all are forgotten."""
LONGEST_KEPT: Final = 255
"""Names come from clients: longer ones are decided anew each time."""

_ALL: Final = sum(1 << operation for operation in Operation)
_ONE: Final = {**{int(operation): 1 << operation for operation in Operation}, ALL_OPERATIONS: _ALL}
IMPLIED_BY: Final[dict[Operation, tuple[Operation, ...]]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""Who may do one of these may do the operation; who is denied one is not denied the operation."""

_ALLOWING: Final = {
    operation: sum(1 << each for each in (operation, *IMPLIED_BY.get(operation, ()))) for operation in Operation
}

Bits = tuple[int, int]
"""What is allowed and what is denied; bit n is the operation of code n."""


class _Patterns:
    """Names with a value, some of them prefixes."""

    __slots__ = ("_counts", "lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, Bits] = {}
        self.prefixed: dict[str, Bits] = {}
        self.lengths: tuple[int, ...] = ()
        self._counts: Counter[int] = Counter()

    def put(self, pattern: Pattern, bits: Bits | None) -> None:
        """Set the value of a pattern; None removes it."""
        names = self.literal if pattern.pattern_type == LITERAL else self.prefixed
        known = pattern.name in names
        if bits is None:
            names.pop(pattern.name, None)
        else:
            names[pattern.name] = bits
        if names is self.prefixed and known != (bits is not None):
            self._counts[len(pattern.name)] += 1 if bits is not None else -1
            self.lengths = tuple(sorted(length for length, count in self._counts.items() if count > 0))

    def bear_on(self, name: str) -> bool:
        """Whether any pattern does."""
        if name in self.literal or WILDCARD in self.literal:
            return True
        return any(length <= len(name) and name[:length] in self.prefixed for length in self.lengths)

    @property
    def is_empty(self) -> bool:
        return not self.literal and not self.prefixed


class AclIndex:
    """All ACLs, and what follows from them. `put` from any thread; a decision takes no lock.

    `allow_if_no_acl`: `allow.everyone.if.no.acl.found`, what holds of a resource that no ACL bears on.
    """

    def __init__(self, allow_if_no_acl: bool = False) -> None:
        self._allow_if_no_acl = allow_if_no_acl
        self._lock = threading.Lock()
        self._entries: dict[Pattern, frozenset[Entry]] = {}
        self._subjects: dict[tuple[int, str, str], _Patterns] = {}
        self._names: dict[int, _Patterns] = {}
        self._kept: dict[tuple[int, int, str, str, str], bool] = {}

    def put(self, pattern: Pattern, entries: frozenset[Entry]) -> None:
        """Replace what is said of a pattern."""
        with self._lock:
            old = self._entries.get(pattern, frozenset())
            if old == entries:
                return
            if entries:
                self._entries[pattern] = entries
            else:
                self._entries.pop(pattern, None)
            self._names.setdefault(pattern.resource_type, _Patterns()).put(pattern, (0, 0) if entries else None)
            self._reindex(pattern, old, entries)
            # After the index: whoever computed with the old one keeps its result in the old dictionary.
            self._kept = {}

    def _reindex(self, pattern: Pattern, old: frozenset[Entry], new: frozenset[Entry]) -> None:
        bits: dict[tuple[str, str], Bits] = {}
        for entry in new:
            allowed, denied = bits.get((entry.principal, entry.host), (0, 0))
            one = _ONE[entry.operation]
            if entry.permission == ALLOW:
                allowed |= one
            else:
                denied |= one
            bits[entry.principal, entry.host] = (allowed, denied)
        for principal, host in {(entry.principal, entry.host) for entry in old} | bits.keys():
            key = (pattern.resource_type, principal, host)
            subject = self._subjects.setdefault(key, _Patterns())
            subject.put(pattern, bits.get((principal, host)))
            if subject.is_empty:
                del self._subjects[key]

    def snapshot(self) -> dict[Pattern, frozenset[Entry]]:
        """All ACLs by pattern."""
        with self._lock:
            return dict(self._entries)

    @property
    def kept(self) -> int:
        """How many decisions are kept."""
        return len(self._kept)

    def decide(self, principal: str, host: str, operation: Operation, resource_type: int, name: str) -> bool:
        """Whether the caller may do the operation on the resource of this name."""
        kept = self._kept
        key = (resource_type, operation, principal, host, name)
        known = kept.get(key)
        if known is None:
            known = self._decide(principal, host, operation, resource_type, name)
            if len(kept) >= KEPT_DECISIONS:
                kept.clear()
            if len(name) <= LONGEST_KEPT:
                kept[key] = known
        return known

    def _decide(self, principal: str, host: str, operation: Operation, resource_type: int, name: str) -> bool:
        # One function without calls: it runs for every topic that is new to a client.
        subjects = self._subjects
        allowed = denied = 0
        size = len(name)
        for key in (
            (resource_type, principal, host),
            (resource_type, principal, WILDCARD),
            (resource_type, EVERYBODY, host),
            (resource_type, EVERYBODY, WILDCARD),
        ):
            subject = subjects.get(key)
            if subject is None:
                continue
            for found in (subject.literal.get(name), subject.literal.get(WILDCARD)):
                if found is not None:
                    allowed |= found[0]
                    denied |= found[1]
            prefixed = subject.prefixed
            for length in subject.lengths:
                if length > size:
                    break
                found = prefixed.get(name[:length])
                if found is not None:
                    allowed |= found[0]
                    denied |= found[1]
        if denied & _ONE[operation]:
            return False
        if allowed & _ALLOWING[operation]:
            return True
        return self._allow_if_no_acl and not self._bears_on(resource_type, name)

    def decide_any(self, principal: str, host: str, operation: Operation, resource_type: int) -> bool:
        """Whether the caller may do the operation on some resource of the type, whether it exists or not.

        Implied operations do not count, and neither do denials of single names that a prefix would cover.
        """
        with self._lock:
            return self._decide_any(principal, host, _ONE[operation], resource_type)

    def _decide_any(self, principal: str, host: str, one: int, resource_type: int) -> bool:
        subjects = self._subjects_of(principal, host, resource_type)
        if any(subject.literal.get(WILDCARD, (0, 0))[1] & one for subject in subjects):
            return False
        if self._allow_if_no_acl:
            return True
        denied_names = {name for s in subjects for name, bits in s.literal.items() if bits[1] & one}
        denied_prefixes = {name for s in subjects for name, bits in s.prefixed.items() if bits[1] & one}

        def is_covered(name: str) -> bool:
            return any(name[:length] in denied_prefixes for length in range(len(name) + 1))

        for subject in subjects:
            for name, (allows, _) in subject.literal.items():
                if allows & one and (name == WILDCARD or not (name in denied_names or is_covered(name))):
                    return True
            for name, (allows, _) in subject.prefixed.items():
                if allows & one and not is_covered(name):
                    return True
        return False

    def _subjects_of(self, principal: str, host: str, resource_type: int) -> list[_Patterns]:
        subjects = self._subjects
        found = (
            subjects.get((resource_type, principal, host)),
            subjects.get((resource_type, principal, WILDCARD)),
            subjects.get((resource_type, EVERYBODY, host)),
            subjects.get((resource_type, EVERYBODY, WILDCARD)),
        )
        return [subject for subject in found if subject is not None]

    def _bears_on(self, resource_type: int, name: str) -> bool:
        patterns = self._names.get(resource_type)
        return patterns is not None and patterns.bear_on(name)
