"""Users, ACLs and delegation tokens of a cluster that changes under them: each is good on every broker until it is
taken away, and on none afterwards; and who was never let in is not let in at any moment."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from broker.dev.polling import wait_until
from network.client.connection import Connection, ConnectionFailed
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from network.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from network.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from network.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from network.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from network.sasl.scram_credential import MECHANISMS, salted_password
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster
from tests.support.guarded import Guarded, by_token, scram, seen_topics

SCRAM = "SCRAM-SHA-512"
SALT = b"salt of the tests"
TOPIC, DESCRIBE, LITERAL, ALLOW, ANY = 2, 8, 3, 3, 1
_IN_FORCE_MS = 30_000


def upsertion(user: str, password: str) -> ScramCredentialUpsertion:
    mechanism = MECHANISMS[SCRAM]
    salted = salted_password(mechanism, password, SALT, 4096)
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism.code, iterations=4096, salt=SALT, salted_password=salted
    )


def set_users(cluster: Cluster, *, made: dict[str, str] | None = None, gone: tuple[str, ...] = ()) -> None:
    """Users of SCRAM-SHA-512 with their passwords."""
    request = AlterUserScramCredentialsRequest(
        upsertions=[upsertion(*each) for each in (made or {}).items()],
        deletions=[ScramCredentialDeletion(name=name, mechanism=MECHANISMS[SCRAM].code) for name in gone],
    )
    with cluster.client() as client:
        results = client.call_controller(request).results
    assert {result.error_code for result in results} == {0}, results


def permit(broker: Broker, user: str, *wanted: tuple[int, str, int]) -> None:
    """Resource type, name and operation of each."""
    creations = [
        AclCreation(
            resource_type=kind, resource_name=name, resource_pattern_type=LITERAL, principal=f"User:{user}", host="*",
            operation=operation, permission_type=ALLOW,
        )
        for kind, name, operation in wanted
    ]  # fmt: skip
    results = wire.call(broker, CreateAclsRequest(creations=creations), 3).results
    assert [result.error_code for result in results] == [0] * len(creations), results


@dataclass(frozen=True)
class _Generation:
    """What was made at one time: a user who may describe the topic, and a token of them."""

    user: str
    password: str
    token: dict[str, str]
    hmac: bytes


class Rules:
    """Makes one generation after the other, each through a broker that is named, and takes the one before away."""

    def __init__(self, guarded: Guarded, topic: str) -> None:
        self._guarded = guarded
        self._topic = topic
        self._now: _Generation | None = None
        self._before: list[_Generation] = []
        self._made = 0

    def change(self, number: int) -> None:
        """Through broker `number`: a new generation, and the end of the last one."""
        cluster = self._guarded.cluster
        broker = cluster.brokers[number]
        self._made += 1
        user, password = f"user-{self._made}, \"'=", f"password-{self._made}"
        set_users(cluster, made={user: password})
        permit(broker, user, (TOPIC, self._topic, DESCRIBE))
        owner = self._entered(number, scram(user, password))
        with owner:
            token = owner.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3)
        assert token.error_code == 0
        options = by_token(token.token_id, base64.b64encode(token.hmac).decode())
        self._end(number)
        self._now = _Generation(user, password, options, token.hmac)
        self._entered(number, options).close()

    def _entered(self, number: int, options: dict[str, str]) -> Connection:
        """A login that is good as soon as the broker has heard of it."""
        made: list[Connection] = []

        def entered() -> bool:
            with suppress(ConnectionFailed):
                made.append(self._guarded.log_in(SCRAM, options, number=number))
            return bool(made)

        assert wait_until(entered, CLOCK, _IN_FORCE_MS), f"{options['username']} does not enter broker {number}"
        return made[0]

    def _end(self, number: int) -> None:
        old, self._now = self._now, None
        if old is None:
            return
        broker = self._guarded.cluster.brokers[number]
        with self._entered(number, scram(old.user, old.password)) as owner:
            ended = owner.call(ExpireDelegationTokenRequest(hmac=old.hmac, expiry_time_period_ms=-1), 2)
        assert ended.error_code == 0
        set_users(self._guarded.cluster, gone=(old.user,))
        wanted = DeleteAclsFilter(
            resource_type_filter=TOPIC, resource_name_filter=None, pattern_type_filter=ANY,
            principal_filter=f"User:{old.user}", host_filter=None, operation=ANY, permission_type=ANY,
        )  # fmt: skip
        (removed,) = wire.call(broker, DeleteAclsRequest(filters=[wanted]), 3).filter_results
        assert len(removed.matching_acls) == 1
        self._before.append(old)

    def check(self) -> None:
        """On every broker that runs: what there is, and what there is no more."""
        now = self._now
        assert now is not None
        for broker in self._guarded.cluster.running:
            for options in (scram(now.user, now.password), now.token):
                with self._entered(broker.broker_id, options) as connection:
                    assert wait_until(lambda c=connection: seen_topics(c) == {self._topic}, CLOCK, _IN_FORCE_MS), (  # type: ignore[misc]
                        f"{broker.kind} {broker.broker_id} lets {options['username']} see {seen_topics(connection)}"
                    )
            for old in self._before[-1:]:
                for options in (scram(old.user, old.password), old.token):
                    refused = wait_until(lambda b=broker, o=options: not self._is_good(b, o), CLOCK, _IN_FORCE_MS)  # type: ignore[misc]
                    assert refused, f"{broker.kind} {broker.broker_id} lets {options['username']} in"

    def _is_good(self, broker: Broker, options: dict[str, str]) -> bool:
        try:
            self._guarded.log_in(SCRAM, options, number=broker.broker_id).close()
        except ConnectionFailed as error:
            if "Authentication failed" not in str(error):
                raise
            return False
        return True


class Intruders:
    """They try every broker all the time, also while it starts: a wrong password, a user whom nothing is allowed."""

    def __init__(self, guarded: Guarded, topic: str, user: str, password: str) -> None:
        self.refused: dict[str, int] = {}
        """How often, by kind of broker."""
        self._guarded = guarded
        self._topic = topic
        self._user, self._password = user, password
        self._problems: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="intruders", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        attempts: list[Callable[[Broker], None]] = [self._wrong_password, self._without_permission]
        while not self._stop.is_set():
            for broker in self._guarded.cluster.brokers:
                for attempt in attempts:
                    try:
                        attempt(broker)
                    except OSError:
                        continue  # it is down, or closes the connection as it stops
                    except Exception as error:
                        self._problems.append(f"{broker.broker_id}: {error!r}")
            self._stop.wait(0.1)

    def _wrong_password(self, broker: Broker) -> None:
        kind = broker.kind
        try:
            self._guarded.log_in(SCRAM, scram(self._user, "wrong"), number=broker.broker_id).close()
        except ConnectionFailed as error:
            if "Authentication failed" in str(error):
                self.refused[kind] = self.refused.get(kind, 0) + 1
            return
        self._problems.append(f"{kind} {broker.broker_id} took a wrong password")

    def _without_permission(self, broker: Broker) -> None:
        kind = broker.kind
        with self._guarded.log_in(SCRAM, scram(self._user, self._password), number=broker.broker_id) as connection:
            seen = seen_topics(connection)
            answer = connection.call(wire.produce_request(self._topic, wire.batch([b"x"])), wire.PRODUCE_VERSION)
        code = ErrorCode.of(answer.responses[0].partition_responses[0].error_code)
        if seen or code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._problems.append(f"{kind} {broker.broker_id} shows {seen} and answers {code.name}")

    def finish(self) -> None:
        """Nothing was let in."""
        self._stop.set()
        self._thread.join(60)
        assert not self._problems, self._problems[:5]
        assert set(self.refused) == {"kafka", "odradek"}, self.refused
