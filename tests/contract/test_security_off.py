"""ACLs, SASL, delegation tokens, client quotas and SCRAM credentials on a broker that has none of them configured."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.zk.paths import sanitize
from network.client.connection import ConnectionFailed
from network.protocol.errors import ErrorCode
from network.protocol.message import Request
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from network.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from network.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from network.protocol.messages.describe_acls import DescribeAclsRequest
from network.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from network.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from network.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from network.protocol.messages.envelope import EnvelopeRequest
from network.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from network.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from network.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support import wire
from tests.support.cluster import Broker, Cluster
from tests.support.zookeeper import zookeeper_client

USER, CLIENT, IP = "user", "client-id", "ip"
EXACT, DEFAULT, ANY = 0, 1, 2

# Apache Kafka 3.9.1 in ZooKeeper mode: keys with their highest versions, the lowest is 0.
_HIGHEST = """
0:11 1:17 2:9 3:12 4:7 5:4 6:8 7:3 8:9 9:9 10:6 11:9 12:4 13:5 14:5 15:5 16:5 17:1 18:4 19:7 20:6 21:2 22:5
23:4 24:5 25:4 26:4 27:1 28:4 29:3 30:3 31:3 32:4 33:2 34:2 35:4 36:2 37:3 38:3 39:2 40:2 41:3 42:2 43:2 44:1
45:0 46:0 47:0 48:1 49:1 50:0 51:0 56:3 57:1 58:0 60:1 61:0 65:0 66:1 67:0 68:0 69:0
"""
ADVERTISED = {int(key): int(last) for key, _, last in (row.partition(":") for row in _HIGHEST.split())}

QUOTAS: dict[str, dict[str, str]] = {
    f"users/{sanitize('al ice')}": {"producer_byte_rate": "1024", "request_percentage": "12.5"},
    "users/<default>": {"consumer_byte_rate": "2048"},
    f"users/{sanitize('al ice')}/clients/app": {"producer_byte_rate": "10"},
    "users/<default>/clients/app": {"producer_byte_rate": "11"},
    "users/bob/clients/<default>": {"controller_mutation_rate": "12.0"},
    f"clients/{sanitize('a/pp*')}": {"producer_byte_rate": "13"},
    "clients/<default>": {"producer_byte_rate": "14"},
    "ips/127.0.0.9": {"connection_creation_rate": "15"},
    "ips/<default>": {"connection_creation_rate": "16"},
    "users/nothing": {},
}


def credential(iterations: int) -> str:
    return f"salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations={iterations}"


CREDENTIALS = {
    "users/scram": {"SCRAM-SHA-256": credential(4096), "SCRAM-SHA-512": credential(8192)},
    f"users/{sanitize('o:dd')}": {"SCRAM-SHA-512": credential(5000), "producer_byte_rate": "17"},
}


@pytest.fixture(scope="module")
def broker(cluster: Cluster) -> Broker:
    """The broker, with quotas and credentials in ZooKeeper."""
    with zookeeper_client(cluster.zookeeper) as client:
        for path, config in {**QUOTAS, **CREDENTIALS}.items():
            data = json.dumps({"version": 1, "config": config}).encode()
            if client.exists(f"/config/{path}"):
                client.set(f"/config/{path}", data)
            else:
                client.create(f"/config/{path}", data, makepath=True)
    return cluster.brokers[0]


def kind_of(cluster: Cluster) -> str:
    return cluster.brokers[0].kind


def test_every_api_of_apache_kafka_is_advertised(broker: Broker) -> None:
    answer = wire.call(broker, ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    assert {row.api_key: row.max_version for row in answer.api_keys} == ADVERTISED
    assert [row.api_key for row in answer.api_keys] == sorted(ADVERTISED)
    assert {row.min_version for row in answer.api_keys} == {0}


ACL = {"principal": "User:x", "host": "*", "operation": 3, "permission_type": 3}
FILTER = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}


@pytest.mark.parametrize("version", range(4))
def test_acls_without_an_authorizer(broker: Broker, version: int) -> None:
    asked = DescribeAclsRequest(resource_type_filter=2, resource_name_filter=None, **FILTER)  # type: ignore[arg-type]
    described = wire.call(broker, asked, version)
    assert (ErrorCode.of(described.error_code), described.error_message, described.resources) == (
        ErrorCode.SECURITY_DISABLED,
        "No Authorizer is configured on the broker",
        [],
    )
    for count in (0, 2):
        creations = [AclCreation(resource_type=2, resource_name="t", **ACL) for _ in range(count)]  # type: ignore[arg-type]
        created = wire.call(broker, CreateAclsRequest(creations=creations), version).results
        filters = [DeleteAclsFilter(resource_type_filter=2, resource_name_filter="t", **FILTER) for _ in range(count)]  # type: ignore[arg-type]
        deleted = wire.call(broker, DeleteAclsRequest(filters=filters), version).filter_results
        expected = [(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")] * count
        assert [(each.error_code, each.error_message) for each in created] == expected
        assert [(each.error_code, each.error_message) for each in deleted] == expected
        assert not any(each.matching_acls for each in deleted)


@pytest.mark.parametrize("code", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
def test_an_acl_with_an_unknown_code_closes_the_connection(broker: Broker, code: str) -> None:
    wanted = AclCreation(**{"resource_type": 2, "resource_name": "t", **ACL, code: 0})  # type: ignore[arg-type]
    with pytest.raises(ConnectionFailed):
        wire.call(broker, CreateAclsRequest(creations=[wanted]), 3)
    names = {"resource_type": "resource_type_filter", "resource_pattern_type": "pattern_type_filter"}
    fields: dict[str, Any] = {
        "resource_type_filter": 2,
        "resource_name_filter": "t",
        **FILTER,
        names.get(code, code): 0,
    }
    requests: list[Request] = [DescribeAclsRequest(**fields), DeleteAclsRequest(filters=[DeleteAclsFilter(**fields)])]
    for request in requests:
        with pytest.raises(ConnectionFailed):
            wire.call(broker, request, 3)


@pytest.mark.parametrize("version", range(3))
def test_sasl_on_a_plaintext_listener(broker: Broker, version: int) -> None:
    with wire.connected(broker) as connection:
        handshake = connection.call(SaslHandshakeRequest(mechanism="PLAIN"), min(version, 1))
        assert (ErrorCode.of(handshake.error_code), handshake.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        rounds = connection.call(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), version)
        assert (ErrorCode.of(rounds.error_code), rounds.error_message, rounds.auth_bytes) == (
            ErrorCode.ILLEGAL_SASL_STATE,
            "SaslAuthenticate request received after successful authentication",
            b"",
        )
        assert connection.call(wire.ASK_VERSIONS, 3).error_code == 0, "the connection stays"


@pytest.mark.parametrize("version", range(4))
def test_delegation_tokens_on_a_plaintext_listener(broker: Broker, version: int) -> None:
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    wanted = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="User", principal_name="r")], max_lifetime_ms=-1
    )
    owner, requester = "ANONYMOUS", ("", "")
    if version >= 3:
        wanted.owner_principal_type, wanted.owner_principal_name = "User", "zed"
        owner, requester = "zed", ("User", "ANONYMOUS")
    made = wire.call(broker, wanted, version)
    assert ErrorCode.of(made.error_code) is refused
    assert (made.principal_type, made.principal_name, made.token_id, made.hmac) == ("User", owner, "", b"")
    assert (made.token_requester_principal_type, made.token_requester_principal_name) == requester
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (-1, -1, -1)
    owners: list[DescribeDelegationTokenOwner] | None
    for owners in (None, []):
        shown = wire.call(broker, DescribeDelegationTokenRequest(owners=owners), version)
        assert (ErrorCode.of(shown.error_code), shown.tokens) == (refused, [])
    for request in (
        RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1),
        ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1),
    ):
        answer = wire.call(broker, request, min(version, 2))
        assert (ErrorCode.of(answer.error_code), answer.expiry_timestamp_ms) == (refused, -1)


def test_nobody_forwards_in_zookeeper_mode(broker: Broker) -> None:
    with pytest.raises(ConnectionFailed):
        wire.call(broker, EnvelopeRequest(request_data=b"x", client_host_address=bytes(4)), 0)


def quotas(broker: Broker, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
    """Found quotas: entity (as sorted items) to values."""
    wanted = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    answer = wire.call(broker, DescribeClientQuotasRequest(components=wanted, strict=strict), version)
    assert (answer.error_code, answer.error_message) == (0, "")
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


ALICE, DEFAULT_USER = ((USER, "al ice"),), ((USER, None),)
ALICE_APP, DEFAULT_APP = ((USER, "al ice"), (CLIENT, "app")), ((USER, None), (CLIENT, "app"))
BOB_DEFAULT, ODD = ((USER, "bob"), (CLIENT, None)), ((USER, "o:dd"),)
APP, DEFAULT_CLIENT = ((CLIENT, "a/pp*"),), ((CLIENT, None),)
LOCAL, DEFAULT_IP = ((IP, "127.0.0.9"),), ((IP, None),)
USERS = {ALICE, DEFAULT_USER, ALICE_APP, DEFAULT_APP, BOB_DEFAULT, ODD}
CLIENTS = {ALICE_APP, DEFAULT_APP, BOB_DEFAULT, APP, DEFAULT_CLIENT}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("components", "loose", "strict"),
    [
        ([], USERS | CLIENTS | {LOCAL, DEFAULT_IP}, set()),
        ([(USER, ANY, None)], USERS, {ALICE, DEFAULT_USER, ODD}),
        ([(USER, DEFAULT, None)], {DEFAULT_USER, DEFAULT_APP}, {DEFAULT_USER}),
        ([(USER, EXACT, "al ice")], {ALICE, ALICE_APP}, {ALICE}),
        ([(USER, EXACT, "nothing")], set(), set()),
        ([(USER, EXACT, "nobody")], set(), set()),
        ([(CLIENT, ANY, None)], CLIENTS, {APP, DEFAULT_CLIENT}),
        ([(CLIENT, EXACT, "app")], {ALICE_APP, DEFAULT_APP}, set()),
        ([(CLIENT, EXACT, "a/pp*")], {APP}, {APP}),
        ([(CLIENT, ANY, None), (USER, ANY, None)], USERS & CLIENTS, USERS & CLIENTS),
        ([(USER, DEFAULT, None), (CLIENT, EXACT, "app")], {DEFAULT_APP}, {DEFAULT_APP}),
        ([(USER, EXACT, "bob"), (CLIENT, DEFAULT, None)], {BOB_DEFAULT}, {BOB_DEFAULT}),
        ([(IP, ANY, None)], {LOCAL, DEFAULT_IP}, {LOCAL, DEFAULT_IP}),
        ([(IP, EXACT, "127.0.0.9")], {LOCAL}, {LOCAL}),
        ([(IP, DEFAULT, None)], {DEFAULT_IP}, {DEFAULT_IP}),
    ],
)
def test_stored_quotas_are_found(
    broker: Broker, components: list[tuple[str, int, str | None]], loose: set[Any], strict: set[Any], version: int
) -> None:
    assert set(quotas(broker, *components, version=version)) == loose
    assert set(quotas(broker, *components, strict=True, version=version)) == strict


def test_quotas_have_their_values(broker: Broker) -> None:
    found = quotas(broker)
    assert found[ALICE] == {"producer_byte_rate": 1024.0, "request_percentage": 12.5}
    assert found[BOB_DEFAULT] == {"controller_mutation_rate": 12.0}
    assert found[ODD] == {"producer_byte_rate": 17.0}, "credentials are no quotas"


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([(USER, ANY), (USER, DEFAULT)], ErrorCode.INVALID_REQUEST, "Duplicate user filter component entity type"),
        ([(IP, ANY), (IP, ANY)], ErrorCode.INVALID_REQUEST, "Duplicate ip filter component entity type"),
        ([("", ANY)], ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type"),
        ([("team", ANY)], ErrorCode.UNSUPPORTED_VERSION, "Custom entity type 'team' not supported"),
        (
            [(IP, ANY), (USER, ANY)],
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or "
            "clientId filter component.",
        ),
    ],
)
def test_quota_filters_that_mean_nothing(
    broker: Broker, components: list[tuple[str, int]], code: ErrorCode, message: str, version: int
) -> None:
    wanted = [ComponentData(entity_type=kind, match_type=how, match=None) for kind, how in components]
    answer = wire.call(broker, DescribeClientQuotasRequest(components=wanted), version)
    assert (ErrorCode.of(answer.error_code), answer.error_message, answer.entries) == (code, message, None)


def credentials(broker: Broker, *users: str) -> list[tuple[str, ErrorCode, str, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users] or None)
    answer = wire.call(broker, request, 0)
    assert (answer.error_code, answer.error_message) == (0, "")
    return [
        (
            each.user,
            ErrorCode.of(each.error_code),
            each.error_message,
            [(info.mechanism, info.iterations) for info in each.credential_infos],
        )
        for each in answer.results
    ]


def test_stored_credentials_are_described_without_their_secrets(broker: Broker) -> None:
    scram = ("scram", ErrorCode.NONE, "", [(1, 4096), (2, 8192)])
    odd = ("o:dd", ErrorCode.NONE, "", [(2, 5000)])
    missing = "Attempt to describe a user credential that does not exist: "
    assert credentials(broker) == [odd, scram]
    twice = "Cannot describe SCRAM credentials for the same user twice in a single request: scram"
    assert credentials(broker, "scram", "bob", "nobody", "o:dd") == [
        scram,
        ("bob", ErrorCode.RESOURCE_NOT_FOUND, missing + "bob", []),
        ("nobody", ErrorCode.RESOURCE_NOT_FOUND, missing + "nobody", []),
        odd,
    ]
    assert credentials(broker, "bob", "scram", "", "scram") == [
        ("bob", ErrorCode.RESOURCE_NOT_FOUND, missing + "bob", []),
        ("scram", ErrorCode.DUPLICATE_RESOURCE, twice, []),
        ("", ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty", []),
    ]
