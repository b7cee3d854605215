"""The users of a secured local cluster: `admin` may do everything, `alice` writes and creates topics, `bob` reads.

A user who has no credential, or one for a password that is lost, gets the password of the cluster's files, and the ACLs
that go with the name. Others have been there before: what was changed since, by `odradek users` and `odradek acls`, is
left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.cli.client import describe
from broker.cli.errors import CommandError
from broker.cli.users import new_password
from broker.dev.cluster import DevBroker, DevCluster
from broker.dev.security import MECHANISM, USERS, DevSecurity
from broker.requests.authorization import Operation, ResourceType
from broker.security.acls import ALLOW, ANY, LITERAL, WILDCARD
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ApiError
from network.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from network.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from network.protocol.messages.describe_acls import DescribeAclsRequest
from network.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from timer.clock import Clock

_TIMEOUT_MS = 30_000
_LOOK_TIMEOUT_MS = 5_000

PERMISSIONS: dict[str, tuple[tuple[ResourceType, Operation], ...]] = {
    "alice": (
        (ResourceType.TOPIC, Operation.WRITE),
        (ResourceType.TOPIC, Operation.CREATE),
        (ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
    ),
    "bob": ((ResourceType.TOPIC, Operation.READ), (ResourceType.GROUP, Operation.READ)),
}
"""On every resource of the type. The admin is among the brokers' `super.users`."""


def make_users(cluster: DevCluster, security: DevSecurity, clock: Clock) -> Callable[[], bool]:
    """Make those who are missing; the result says whether every broker lets them in and knows their ACLs.

    Raises CommandError when brokers refuse.
    """
    try:
        with cluster.client(cluster.brokers, _TIMEOUT_MS) as client:
            missing = make_missing(client, security)
    except (OSError, ApiError) as error:
        raise CommandError(f"the users cannot be made: {error}") from error
    # What is known to stay so is not asked again.
    waiting = [(broker, user) for broker in cluster.brokers for user in missing]

    def known() -> bool:
        while waiting and _is_known(cluster, security, clock, *waiting[-1]):
            waiting.pop()
        return not waiting

    return known


def make_missing(client: ClusterClient, security: DevSecurity) -> list[str]:
    """Those who were not there. Raises CommandError when brokers refuse, OSError and ApiError."""
    answer = client.call_any(DescribeUserScramCredentialsRequest(users=None))
    _check([(answer.error_code, answer.error_message)])
    there = {result.user for result in answer.results}
    missing = [user for user in USERS if user not in there or user in security.new]
    if missing:
        _make(client, missing, security)
    return missing


def _make(client: ClusterClient, users: list[str], security: DevSecurity) -> None:
    """The ACLs first: who has a credential has them."""
    creations = [
        AclCreation(
            resource_type=resource,
            resource_name=WILDCARD,
            resource_pattern_type=LITERAL,
            principal=f"User:{user}",
            host=WILDCARD,
            operation=operation,
            permission_type=ALLOW,
        )
        for user in users
        for resource, operation in PERMISSIONS.get(user, ())
    ]
    if creations:
        results = client.call_any(CreateAclsRequest(creations=creations)).results
        _check((result.error_code, result.error_message) for result in results)
    upsertions = [new_password(user, MECHANISM, security.passwords[user]) for user in users]
    results = client.call_controller(AlterUserScramCredentialsRequest(upsertions=upsertions)).results
    _check((result.error_code, result.error_message) for result in results)


def _check(outcomes: Iterable[tuple[int, str | None]]) -> None:
    for code, message in outcomes:
        if code:
            raise CommandError(f"the users cannot be made: {describe(code, message)}")


def _is_known(cluster: DevCluster, security: DevSecurity, clock: Clock, broker: DevBroker, user: str) -> bool:
    acls = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=f"User:{user}",
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    try:
        with cluster.client([broker], _LOOK_TIMEOUT_MS) as client:
            resources = client.call_broker(broker.broker_id, acls).resources
        found = sum(len(resource.acls) for resource in resources)
        if found < len(PERMISSIONS.get(user, ())):
            return False
        wrap = security.wrapper(user, clock)
        with ClusterClient(
            broker.address, "odradek-dev", clock, request_timeout_ms=_LOOK_TIMEOUT_MS, wrap=wrap
        ) as client:
            client.metadata([])
    except (OSError, ApiError):
        return False
    return True
