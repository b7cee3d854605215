"""Delegation tokens: made, renewed, shown, ended, logged in with; the same on both kinds of broker."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from broker.dev.polling import wait_until
from network.client.connection import Connection, ConnectionFailed
from network.protocol.errors import ErrorCode
from network.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from network.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from network.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from network.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from network.protocol.messages.sasl_handshake import SaslHandshakeRequest
from network.sasl.clients import client_mechanism
from tests.support.cluster import CLOCK, HOST, Broker, Cluster
from tests.support.sasl import USERS, logged_in, running_sasl_cluster, sasl_port
from tests.support.zookeeper import zookeeper_client

DAY_MS = 86_400_000
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    name = f"tokens-{request.param}"
    with running_sasl_cluster([request.param], tmp_path_factory.mktemp(name), f"{zookeeper}/{name}") as cluster:
        yield cluster


@pytest.fixture
def broker(cluster: Cluster) -> Broker:
    return cluster.brokers[0]


def as_user(broker: Broker, user: str) -> Connection:
    return logged_in(broker, "PLAIN", {"username": user, "password": USERS[user]})


@pytest.fixture
def alice(broker: Broker) -> Iterator[Connection]:
    with as_user(broker, "alice") as connection:
        yield connection


@pytest.fixture
def bob(broker: Broker) -> Iterator[Connection]:
    with as_user(broker, "bob") as connection:
        yield connection


def create(connection: Connection, renewers: tuple[str, ...] = (), version: int = 3, **fields: Any) -> Any:
    wanted = [CreatableRenewers(principal_type="User", principal_name=name) for name in renewers]
    return connection.call(CreateDelegationTokenRequest(renewers=wanted, **{"max_lifetime_ms": -1, **fields}), version)


def described(connection: Connection, owners: list[str] | None = None, version: int = 3) -> dict[str, Any]:
    asked = None
    if owners is not None:
        asked = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    answer = connection.call(DescribeDelegationTokenRequest(owners=asked), version)
    assert answer.error_code == 0
    return {token.token_id: token for token in answer.tokens}


def end(connection: Connection, mac: bytes, period_ms: int = -1) -> tuple[ErrorCode, int]:
    answer = connection.call(ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=period_ms), 2)
    return ErrorCode.of(answer.error_code), answer.expiry_timestamp_ms


def renew(connection: Connection, mac: bytes, period_ms: int = -1) -> tuple[ErrorCode, int]:
    answer = connection.call(RenewDelegationTokenRequest(hmac=mac, renew_period_ms=period_ms), 2)
    return ErrorCode.of(answer.error_code), answer.expiry_timestamp_ms


def by_token(broker: Broker, token: Any, mechanism: str = "SCRAM-SHA-256") -> Connection:
    password = base64.b64encode(token.hmac).decode()
    options = {"username": token.token_id, "password": password, "tokenauth": "true"}
    return logged_in(broker, mechanism, options)


@pytest.mark.parametrize("version", range(4))
def test_a_token_is_made_and_shown(alice: Connection, bob: Connection, version: int) -> None:
    before = CLOCK.wall_ms()
    token = create(alice, ("bob",), version)
    assert token.error_code == 0
    assert (token.principal_type, token.principal_name) == ("User", "alice")
    assert before <= token.issue_timestamp_ms <= CLOCK.wall_ms()
    assert token.expiry_timestamp_ms == token.issue_timestamp_ms + DAY_MS
    assert token.max_timestamp_ms == token.issue_timestamp_ms + 7 * DAY_MS
    assert len(token.hmac) == 64
    assert len(token.token_id) == 22
    for connection in (alice, bob):
        found = described(connection, version=version)[token.token_id]
        assert (found.principal_name, bytes(found.hmac)) == ("alice", bytes(token.hmac))
        assert [(each.principal_type, each.principal_name) for each in found.renewers] == [("User", "bob")]
        assert (found.issue_timestamp, found.expiry_timestamp, found.max_timestamp) == (
            token.issue_timestamp_ms,
            token.expiry_timestamp_ms,
            token.max_timestamp_ms,
        )
        requester = (found.token_requester_principal_type, found.token_requester_principal_name)
        assert requester == (("User", "alice") if version >= 3 else ("", ""))
    assert token.token_id in described(alice, ["alice"], version)
    assert token.token_id in described(alice, ["bob"], version)
    assert described(alice, ["carol"], version) == {}
    assert described(alice, [], version) == {}
    assert end(alice, bytes(token.hmac))[0] is ErrorCode.NONE


def test_the_znode_is_kafkas(cluster: Cluster, alice: Connection) -> None:
    token = create(alice, ("bob", "o'b,r"))
    with zookeeper_client(cluster.zookeeper) as client:
        stored = json.loads(client.get(f"/delegation_token/tokens/{token.token_id}")[0])
        changes = client.get_children("/delegation_token/token_changes")
        told = {client.get(f"/delegation_token/token_changes/{name}")[0].decode() for name in changes}
    assert stored == {
        "version": 3,
        "owner": "User%3Aalice",
        "tokenRequester": "User%3Aalice",
        "renewers": ["User%3Abob", "User%3Ao%27b%2Cr"],
        "issueTimestamp": token.issue_timestamp_ms,
        "maxTimestamp": token.max_timestamp_ms,
        "expiryTimestamp": token.expiry_timestamp_ms,
        "tokenId": token.token_id,
    }
    assert token.token_id in told


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_login_with_a_token(broker: Broker, alice: Connection, mechanism: str) -> None:
    token = create(alice, max_lifetime_ms=60_000)
    assert token.max_timestamp_ms == token.expiry_timestamp_ms == token.issue_timestamp_ms + 60_000
    with by_token(broker, token, mechanism) as connection:
        assert ErrorCode.of(create(connection).error_code) is NOT_ALLOWED
        answer = connection.call(DescribeDelegationTokenRequest(owners=None), 3)
        assert ErrorCode.of(answer.error_code) is NOT_ALLOWED
        assert renew(connection, bytes(token.hmac)) == (NOT_ALLOWED, -1)
        assert end(connection, bytes(token.hmac)) == (NOT_ALLOWED, -1)
    with pytest.raises(ConnectionFailed, match="Authentication failed"):
        logged_in(broker, mechanism, {"username": token.token_id, "password": base64.b64encode(token.hmac).decode()})
    assert end(alice, bytes(token.hmac))[0] is ErrorCode.NONE
    with pytest.raises(ConnectionFailed, match="Authentication failed"):
        by_token(broker, token, mechanism)


def test_the_session_ends_with_the_token(broker: Broker, alice: Connection) -> None:
    token = create(alice, max_lifetime_ms=60_000)
    options = {
        "username": token.token_id,
        "password": base64.b64encode(token.hmac).decode(),
        "tokenauth": "true",
    }
    client = client_mechanism("SCRAM-SHA-512", options, CLOCK)(HOST)
    with Connection(HOST, sasl_port(broker), "raw", CLOCK) as raw:
        raw.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
        lifetimes, message = [], client.evaluate(b"")
        while message is not None:
            answer = raw.call(SaslAuthenticateRequest(auth_bytes=message), 2)
            lifetimes.append(answer.session_lifetime_ms)
            message = client.evaluate(bytes(answer.auth_bytes))
    assert lifetimes[0] == 0
    assert 30_000 < lifetimes[1] <= 60_000


def test_who_may_renew_and_end(broker: Broker, alice: Connection, bob: Connection) -> None:
    token = create(alice, ("bob",), max_lifetime_ms=100_000)
    mac = bytes(token.hmac)
    with as_user(broker, "o'b,r") as other:
        for act in (renew, end):
            assert act(other, mac) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
            assert act(other, b"unknown") == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)
    code, expires = renew(bob, mac, 50_000)
    assert code is ErrorCode.NONE
    assert token.issue_timestamp_ms + 50_000 <= expires < token.max_timestamp_ms
    assert renew(bob, mac, DAY_MS) == (ErrorCode.NONE, token.max_timestamp_ms)
    assert end(bob, mac, 0)[0] is ErrorCode.NONE
    assert wait_until(lambda: renew(bob, mac)[0] is ErrorCode.DELEGATION_TOKEN_EXPIRED, CLOCK, 5_000)
    assert end(alice, mac, 5)[0] is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert end(alice, mac)[0] is ErrorCode.NONE
    assert renew(alice, mac) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)


def test_owners_and_renewers_of_other_kinds(alice: Connection) -> None:
    wanted = [CreatableRenewers(principal_type="Group", principal_name="x")]
    refused = alice.call(CreateDelegationTokenRequest(renewers=wanted, max_lifetime_ms=-1), 3)
    assert ErrorCode.of(refused.error_code) is ErrorCode.INVALID_PRINCIPAL_TYPE
    assert (refused.issue_timestamp_ms, refused.token_id, refused.hmac) == (-1, "", b"")
    # Without an authorizer everybody may ask for everybody's.
    made = create(alice, owner_principal_type="User", owner_principal_name="zoë")
    assert (made.error_code, made.principal_name) == (0, "zoë")
    assert (made.token_requester_principal_type, made.token_requester_principal_name) == ("User", "alice")
    assert made.token_id in described(alice)
