"""``odradek acls``: list, add and remove access control lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, TypeVar

import click

from broker.cli.client import bootstrap_option, cluster, describe
from broker.cli.errors import CommandError
from broker.cli.output import line, listing, say
from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.security.acls import ALL_OPERATIONS, ALLOW, ANY, DENY, LITERAL, MATCH, PREFIXED
from network.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from network.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from network.protocol.messages.describe_acls import DescribeAclsRequest

F = TypeVar("F", bound=Callable[..., Any])

OPERATIONS = {"all": ALL_OPERATIONS, **{each.name.lower().replace("_", "-"): int(each) for each in Operation}}
PERMISSIONS = {"allow": ALLOW, "deny": DENY}
PATTERNS = {"literal": LITERAL, "prefixed": PREFIXED}
_OPERATION_NAMES = {code: name for name, code in OPERATIONS.items()}
_PERMISSION_NAMES = {code: name for name, code in PERMISSIONS.items()}
_PATTERN_NAMES = {code: name for name, code in PATTERNS.items()}
_HOW = {**PATTERNS, "any": ANY, "match": MATCH}


@click.group("acls")
def command() -> None:
    """List, add and remove access control lists (ACLs)."""


def _resource_options(function: F) -> F:
    """What the ACLs are about."""
    for option in reversed(
        (
            click.option("--topic", "topics", multiple=True, metavar="NAME", help="`*` means every topic."),
            click.option("--group", "groups", multiple=True, metavar="NAME", help="A consumer group."),
            click.option("--transactional-id", "transactional_ids", multiple=True, metavar="ID"),
            click.option("--delegation-token", "tokens", multiple=True, metavar="ID"),
            click.option("--user-principal", "users", multiple=True, metavar="NAME", help="Whose tokens are meant."),
            click.option("--cluster", "on_cluster", is_flag=True, help="The cluster itself."),
        )
    ):
        function = option(function)
    return function


def _resources(options: dict[str, Any]) -> list[tuple[int, str]]:
    kinds = {
        "topics": ResourceType.TOPIC,
        "groups": ResourceType.GROUP,
        "transactional_ids": ResourceType.TRANSACTIONAL_ID,
        "tokens": ResourceType.DELEGATION_TOKEN,
        "users": ResourceType.USER,
    }
    found = [(int(kind), name) for option, kind in kinds.items() for name in options[option]]
    if options["on_cluster"]:
        found.append((int(ResourceType.CLUSTER), CLUSTER_NAME))
    return found


@command.command("add")
@bootstrap_option
@click.option(
    "--principal", "principals", multiple=True, required=True, metavar="User:NAME", help="`User:*`: everybody."
)
@click.option("--host", "hosts", multiple=True, metavar="IP", help="From where; from everywhere without it.")
@click.option(
    "--operation", "operations", multiple=True, type=click.Choice(list(OPERATIONS)), required=True, help="Repeatable."
)
@click.option("--deny", is_flag=True, help="Deny instead of allow; a denial wins.")
@click.option("--pattern", type=click.Choice(list(PATTERNS)), default="literal", help="How names are meant.")
@_resource_options
def add(
    bootstrap_server: str,
    principals: tuple[str, ...],
    hosts: tuple[str, ...],
    operations: tuple[str, ...],
    deny: bool,
    pattern: str,
    **options: Any,
) -> None:
    """Allow (or deny) principals operations on resources."""
    resources = _resources(options)
    if not resources:
        raise CommandError(
            "name a --topic, --group, --transactional-id, --delegation-token, --user-principal or --cluster",
            exit_code=2,
        )
    _check_principals(principals)
    creations = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PATTERNS[pattern],
            principal=principal,
            host=host,
            operation=OPERATIONS[operation],
            permission_type=DENY if deny else ALLOW,
        )
        for (kind, name), principal, host, operation in product(resources, principals, hosts or ("*",), operations)
    ]
    with cluster(bootstrap_server) as client:
        results = client.call_any(CreateAclsRequest(creations=creations)).results
    _check((result.error_code, result.error_message) for result in results)
    added = [_facts((each.resource_type, each.resource_name, each.resource_pattern_type), each) for each in creations]
    listing(added, lambda: click.echo(f"Added {_count(len(added))}."))


def _filter_options(function: F) -> F:
    """Which ACLs; what is not named is any."""
    for option in reversed(
        (
            click.option("--principal", metavar="User:NAME", help="Exactly this one."),
            click.option("--host", metavar="IP"),
            click.option("--operation", type=click.Choice(list(OPERATIONS))),
            click.option("--permission", type=click.Choice(list(PERMISSIONS))),
            click.option(
                "--pattern",
                type=click.Choice(list(_HOW)),
                default="any",
                help="match: also `*` and the prefixes that bear on the name.",
            ),
        )
    ):
        function = option(function)
    return function


def _filters(
    principal: str | None, host: str | None, operation: str | None, permission: str | None, pattern: str, **options: Any
) -> list[DeleteAclsFilter]:
    _check_principals([] if principal is None else [principal])
    resources: list[tuple[int, str | None]] = [*_resources(options)] or [(ANY, None)]
    return [
        DeleteAclsFilter(
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=_HOW[pattern],
            principal_filter=principal,
            host_filter=host,
            operation=ANY if operation is None else OPERATIONS[operation],
            permission_type=ANY if permission is None else PERMISSIONS[permission],
        )
        for kind, name in resources
    ]


@command.command("list")
@bootstrap_option
@_filter_options
@_resource_options
def list_(bootstrap_server: str, **options: Any) -> None:
    """List ACLs, all without a filter."""
    found: dict[str, dict[str, object]] = {}
    with cluster(bootstrap_server) as client:
        for each in _filters(**options):
            request = DescribeAclsRequest(**{field.name: getattr(each, field.name) for field in each.FIELDS})
            answer = client.call_any(request)
            _check([(answer.error_code, answer.error_message)])
            for resource in answer.resources:
                about = (resource.resource_type, resource.resource_name, resource.pattern_type)
                found.update((_text(about, acl), _facts(about, acl)) for acl in resource.acls)
    for text, facts in sorted(found.items()):
        say(text, **facts)


@command.command("remove")
@bootstrap_option
@_filter_options
@_resource_options
@click.option("--force", is_flag=True, help="Do not ask.")
def remove(bootstrap_server: str, force: bool, **options: Any) -> None:
    """Remove the ACLs that a filter means."""
    filters = _filters(**options)
    if not force:
        try:
            click.confirm("Remove every ACL that `odradek acls list` shows for these options?", abort=True, err=True)
        except click.Abort:
            raise CommandError("nothing was removed; --force does not ask", exit_code=130) from None
    with cluster(bootstrap_server) as client:
        results = client.call_any(DeleteAclsRequest(filters=filters)).filter_results
    _check((result.error_code, result.error_message) for result in results)
    removed = [acl for result in results for acl in result.matching_acls]
    _check((acl.error_code, acl.error_message) for acl in removed)
    for acl in removed:
        about = (acl.resource_type, acl.resource_name, acl.pattern_type)
        say(_text(about, acl), **_facts(about, acl))
    line(f"Removed {_count(len(removed))}.")


def _check_principals(principals: Iterable[str]) -> None:
    for principal in principals:
        kind, colon, _ = principal.partition(":")
        if not kind or not colon:
            raise CommandError(f"--principal {principal!r} is not TYPE:NAME, as in User:alice", exit_code=2)


def _text(about: tuple[int, str, int], acl: Any) -> str:
    how = "" if about[2] == LITERAL else f" ({_PATTERN_NAMES[about[2]]})"
    return "{resource} {name}{how}: {permission} {principal} {operation} from {host}".format(
        how=how, **_facts(about, acl)
    )


def _facts(about: tuple[int, str, int], acl: Any) -> dict[str, object]:
    kind, name, pattern = about
    return {
        "resource": ResourceType(kind).name.lower().replace("_", "-"),
        "name": name,
        "pattern": _PATTERN_NAMES[pattern],
        "permission": _PERMISSION_NAMES[acl.permission_type],
        "principal": acl.principal,
        "operation": _OPERATION_NAMES[acl.operation],
        "host": acl.host,
    }


def _count(number: int) -> str:
    return "1 ACL" if number == 1 else f"{number} ACLs"


def _check(errors: Iterable[tuple[int, str | None]]) -> None:
    for code, message in errors:
        if code:
            raise CommandError(describe(code, message))
