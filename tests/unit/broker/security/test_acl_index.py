"""The index against a reading of the rules one by one, for any set of ACLs."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.requests.authorization import Operation, ResourceType
from broker.security.acl_index import IMPLIED_BY, AclIndex
from broker.security.acls import ALL_OPERATIONS, ALLOW, DENY, LITERAL, PREFIXED, Binding, Entry, Pattern

NAMES = ["*", "a", "ab", "abc", "abd", "b", "a*", "ä"]
PRINCIPALS = ["User:x", "User:y", "User:*", "Group:x"]
HOSTS = ["1.1.1.1", "2.2.2.2", "*"]
OPERATIONS = [ALL_OPERATIONS, *Operation]
TYPES = [ResourceType.TOPIC, ResourceType.GROUP]

bindings = st.builds(
    Binding,
    st.builds(Pattern, st.sampled_from(TYPES), st.sampled_from(NAMES), st.sampled_from([LITERAL, PREFIXED])),
    st.builds(
        Entry,
        st.sampled_from(PRINCIPALS),
        st.sampled_from(HOSTS),
        st.sampled_from(OPERATIONS),
        st.sampled_from([ALLOW, ALLOW, DENY]),
    ),
)


def put_all(index: AclIndex, acls: Sequence[Binding]) -> None:
    by_pattern: dict[Pattern, set[Entry]] = {}
    for pattern, entry in acls:
        by_pattern.setdefault(pattern, set()).add(entry)
    for pattern, entries in by_pattern.items():
        index.put(pattern, frozenset(entries))
    for pattern in index.snapshot().keys() - by_pattern.keys():
        index.put(pattern, frozenset())


def is_about(pattern: Pattern, resource_type: int, name: str) -> bool:
    if pattern.resource_type != resource_type:
        return False
    if pattern.pattern_type == LITERAL:
        return pattern.name in (name, "*")
    return name.startswith(pattern.name)


def is_of(entry: Entry, principal: str, host: str) -> bool:
    return entry.principal in (principal, "User:*") and entry.host in (host, "*")


def by_the_rules(
    acls: Sequence[Binding],
    principal: str,
    host: str,
    operation: Operation,
    resource_type: int,
    name: str,
    *,
    default: bool,
) -> bool:
    """What the documentation of ACLs says, one sentence a line."""
    about = [entry for pattern, entry in acls if is_about(pattern, resource_type, name)]
    if not about:
        return default
    mine = [entry for entry in about if is_of(entry, principal, host)]
    if any(entry.permission == DENY and entry.operation in (operation, ALL_OPERATIONS) for entry in mine):
        return False
    sufficient = (operation, ALL_OPERATIONS, *IMPLIED_BY.get(operation, ()))
    return any(entry.permission == ALLOW and entry.operation in sufficient for entry in mine)


def any_by_the_rules(
    acls: Sequence[Binding], principal: str, host: str, operation: Operation, resource_type: int, *, default: bool
) -> bool:
    def named(permission: int, kind: int) -> set[str]:
        return {
            pattern.name
            for pattern, entry in acls
            if pattern.resource_type == resource_type
            and pattern.pattern_type == kind
            and entry.permission == permission
            and is_of(entry, principal, host)
            and entry.operation in (operation, ALL_OPERATIONS)
        }

    denied, denied_prefixes = named(DENY, LITERAL), named(DENY, PREFIXED)
    if "*" in denied:
        return False
    if default:
        return True
    covered = {name for name in NAMES if any(name.startswith(prefix) for prefix in denied_prefixes)}
    allowed = named(ALLOW, LITERAL)
    return "*" in allowed or bool(allowed - denied - covered) or bool(named(ALLOW, PREFIXED) - covered)


@settings(max_examples=40, deadline=None)
@given(st.lists(bindings, max_size=12), st.lists(bindings, max_size=12), st.booleans())
def test_every_decision_is_what_the_rules_say(before: list[Binding], after: list[Binding], default: bool) -> None:
    index = AclIndex(default)
    for acls in (before, after, []):  # the second time over what was decided of the first
        put_all(index, acls)
        for principal in PRINCIPALS:
            for host in HOSTS:
                for operation in (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.CREATE):
                    for resource_type in TYPES:
                        case = (acls, principal, host, operation, resource_type)
                        assert index.decide_any(*case[1:]) == any_by_the_rules(*case, default=default), case
                        for name in (*NAMES, "abcd", ""):
                            decided = index.decide(*case[1:], name)
                            assert decided == by_the_rules(*case, name, default=default), (case, name)
                            assert index.decide(*case[1:], name) == decided


def test_a_change_is_seen_at_once_although_decisions_are_kept() -> None:
    index = AclIndex()
    pattern = Pattern(ResourceType.TOPIC, "t")
    question = ("User:x", "1.1.1.1", Operation.READ, ResourceType.TOPIC, "t")
    assert not index.decide(*question)
    index.put(pattern, frozenset({Entry("User:x", "*", Operation.READ, ALLOW)}))
    assert index.decide(*question)
    index.put(pattern, frozenset())
    assert not index.decide(*question)


def test_long_names_from_clients_are_not_kept() -> None:
    index = AclIndex()
    for number in range(10):
        index.decide("User:x", "1.1.1.1", Operation.READ, ResourceType.TOPIC, f"{number}" * 10_000)
    assert index.kept == 0
    index.decide("User:x", "1.1.1.1", Operation.READ, ResourceType.TOPIC, "short")
    assert index.kept == 1
