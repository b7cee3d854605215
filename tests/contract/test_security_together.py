"""TLS, SASL, ACLs and quotas of one broker at once: who came by which way, what they see, and what they are held to."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from broker.dev.polling import wait_until
from network.client.connection import Connection, ConnectionFailed
from network.protocol.errors import ErrorCode
from network.protocol.messages.create_acls import AclCreation
from network.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from network.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from tests.contract.test_acls import LITERAL, PREFIXED, READ, WRITE, create, creation
from tests.contract.test_command_line import odradek
from tests.contract.test_quotas import alter as alter_quota
from tests.contract.test_sasl import alter, upsertion
from tests.reference import kafka
from tests.support import wire
from tests.support.cluster import CLOCK
from tests.support.guarded import ADMIN, Guarded, bearer, by_token, running_guarded, scram, seen_topics

GROUP, DENY = 3, 2
SCRAM = "SCRAM-SHA-512"
USERS = {"alice": "alice-secret", 'o\'b, "r"=x': 'p"a,s=s', "a*": "asterisk", "*": "everybody", "carol": "carol's"}
OAUTH = 'zoë, "the" *'
SUBJECT = 'CN=Zoë \\"the\\, boss\\",O=Odradek\\, tests,C=CZ'

PRINCIPALS = {
    "scram": "User:alice",
    "quotes": 'User:o\'b, "r"=x',
    "asterisk": "User:a*",
    "oauth": f"User:{OAUTH}",
    "token": "User:carol",
    "mapped": "User:svc-one",
    "certificate": f"User:{SUBJECT}",
}
"""By the way in: who that is."""


def topic_of(way: str) -> str:
    return f"for-{way}"


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def guarded(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    name = f"together-{request.param}"
    with running_guarded([request.param], tmp_path_factory.mktemp(name), f"{zookeeper}/{name}") as made:
        changes = [upsertion(user, password, SCRAM) for user, password in USERS.items()]
        assert set(alter(made.broker, *changes).values()) == {(ErrorCode.NONE, "")}
        for topic in (*map(topic_of, PRINCIPALS), "open-to-all", "closed"):
            wire.create_topic(made.cluster, topic)
        wanted = [
            creation(topic_of(way), principal, operation=operation)
            for way, principal in PRINCIPALS.items()
            for operation in (READ, WRITE)
        ]
        wanted += [
            creation("open-", "User:*", pattern=PREFIXED, operation=READ),
            # None of these is about any topic here: a name of ACLs has no wildcards but the one that is all of it.
            creation("for-*", "User:*", operation=READ),
            creation("*", "User:*", pattern=PREFIXED, operation=READ),
            creation("for-\"a,b' ü", "User:alice", pattern=LITERAL, operation=READ),
        ]
        allow(made, *wanted)
        # The last user is there when all are: changes apply in their order.
        assert wait_until(lambda: enters(made, *list(USERS.items())[-1]), CLOCK, 10_000)
        yield made


def allow(guarded: Guarded, *wanted: AclCreation) -> None:
    assert {code for code, _ in create(guarded.cluster, *wanted)} == {"NONE"}


def enters(guarded: Guarded, user: str, password: str) -> bool:
    try:
        guarded.log_in(SCRAM, scram(user, password)).close()
        return True
    except ConnectionFailed:
        return False


def token_of(connection: Connection) -> tuple[Any, dict[str, str]]:
    token = connection.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3)
    assert token.error_code == 0
    return token, by_token(token.token_id, base64.b64encode(token.hmac).decode())


def enter(guarded: Guarded, way: str, client_id: str = "guarded") -> Connection:
    if way == "oauth":
        return guarded.log_in("OAUTHBEARER", bearer(OAUTH), client_id=client_id)
    if way == "mapped":
        return guarded.by_certificate(guarded.authority.issue("SVC-One"), client_id)
    if way == "certificate":
        return guarded.by_certificate(guarded.authority.issue('Zoë "the, boss"'), client_id)
    user = PRINCIPALS[way].removeprefix("User:")
    if way != "token":
        return guarded.log_in(SCRAM, scram(user, USERS[user]), client_id=client_id)
    with guarded.log_in(SCRAM, scram(user, USERS[user])) as owner:
        options = token_of(owner)[1]
    return guarded.log_in(SCRAM, options, client_id=client_id)


def produced(connection: Connection, topic: str, size: int = 1) -> tuple[str, int]:
    answer = connection.call(wire.produce_request(topic, wire.batch([b"x" * size])), wire.PRODUCE_VERSION)
    code = answer.responses[0].partition_responses[0].error_code
    return ErrorCode.of(code).name, answer.throttle_time_ms


@pytest.mark.parametrize("way", PRINCIPALS)
def test_each_sees_and_writes_what_is_theirs(guarded: Guarded, way: str) -> None:
    with enter(guarded, way) as connection:
        assert seen_topics(connection) == {topic_of(way), "open-to-all"}
        for topic in (*map(topic_of, PRINCIPALS), "open-to-all", "closed"):
            wanted = "NONE" if topic == topic_of(way) else "TOPIC_AUTHORIZATION_FAILED"
            assert produced(connection, topic)[0] == wanted, topic


def test_a_user_called_asterisk_is_not_everybody(guarded: Guarded) -> None:
    with guarded.log_in(SCRAM, scram("*", USERS["*"])) as connection:
        assert seen_topics(connection) == {"open-to-all"}


def test_nobody_with_a_token_that_has_ended(guarded: Guarded) -> None:
    with guarded.log_in(SCRAM, scram("carol", USERS["carol"])) as owner:
        token, options = token_of(owner)
        guarded.log_in(SCRAM, options).close()
        ended = owner.call(ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1), 2)
    assert ended.error_code == 0

    def refused() -> bool:
        try:
            guarded.log_in(SCRAM, options).close()
            return False
        except ConnectionFailed:
            return True

    assert wait_until(refused, CLOCK, 5_000)


def test_a_denial_of_one_goes_before_a_permission_of_all(guarded: Guarded) -> None:
    denial = creation("open-to-all", f"User:{OAUTH}", operation=READ, permission=DENY)
    describe = creation("open-to-all", f"User:{OAUTH}", operation=8, permission=DENY)
    allow(guarded, denial, describe)
    with enter(guarded, "oauth") as denied, enter(guarded, "scram") as other:
        assert wait_until(lambda: seen_topics(denied) == {topic_of("oauth")}, CLOCK, 5_000)
        assert seen_topics(other) == {topic_of("scram"), "open-to-all"}


CLIENT = 'c,l "i"é *'


def is_throttled(guarded: Guarded, way: str, client_id: str) -> bool:
    """Whether one batch of 20 KB is too much."""
    with enter(guarded, way, client_id) as connection:
        code, delay_ms = produced(connection, topic_of(way), 20_000)
    assert code == "NONE"
    return delay_ms > 0


def test_a_quota_holds_for_whom_it_is_and_the_most_specific_one(guarded: Guarded) -> None:
    """Of a user, by SASL and by certificate; of a client id; of both."""
    ways = ("oauth", "certificate", "scram")

    def throttled() -> set[tuple[str, str]]:
        return {(way, client) for way in ways for client in (CLIENT, "other") if is_throttled(guarded, way, client)}

    low, high = {"producer_byte_rate": 5_000.0}, {"producer_byte_rate": 1e9}
    steps: list[tuple[list[tuple[str, str | None]], dict[str, float], set[tuple[str, str]]]] = [
        ([("user", OAUTH)], low, {("oauth", CLIENT), ("oauth", "other")}),
        (
            [("user", SUBJECT)],
            low,
            {("oauth", CLIENT), ("oauth", "other"), ("certificate", CLIENT), ("certificate", "other")},
        ),
        (
            [("client-id", CLIENT)],
            low,
            {
                ("oauth", CLIENT), ("oauth", "other"), ("certificate", CLIENT), ("certificate", "other"),
                ("scram", CLIENT),
            },
        ),
        (
            [("user", OAUTH), ("client-id", CLIENT)],
            high,
            {("oauth", "other"), ("certificate", CLIENT), ("certificate", "other"), ("scram", CLIENT)},
        ),
    ]  # fmt: skip
    try:
        for entity, values, wanted in steps:
            assert alter_quota(guarded.broker, entity, validate_only=False, **values) == (0, None)
            assert wait_until(lambda wanted=wanted: throttled() == wanted, CLOCK, 20_000, 500), entity  # type: ignore[misc]
    finally:
        for entity, values, _ in steps:
            alter_quota(guarded.broker, entity, validate_only=False, **dict.fromkeys(values, None))


@pytest.fixture
def tool(guarded: Guarded, tmp_path: Path) -> Callable[..., str]:
    """Kafka's tool by SASL_SSL, as the super user unless another file is named."""
    file = guarded.client_file(tmp_path / "admin.properties", "PLAIN", ADMIN)

    def run(main_class: str, *arguments: str, config: Path = file, code: int = 0) -> str:
        where = ("--bootstrap-server", guarded.address(), "--command-config", str(config))
        done = kafka.run_tool(main_class, *where, *arguments)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + (done.stderr if code else "")

    return run


def test_kafka_configs_sets_and_shows_quotas(tool: Callable[..., str]) -> None:
    configs = "kafka.admin.ConfigCommand"
    user = ["--entity-type", "users", "--entity-name", OAUTH]
    both = [*user, "--entity-type", "clients", "--entity-name", CLIENT]
    address = ["--entity-type", "ips", "--entity-name", "127.0.7.7"]
    assert tool(configs, "--alter", *both, "--add-config", "consumer_byte_rate=1048576,request_percentage=50") == (
        f"Completed updating config for user {OAUTH}.\n"
    )
    assert tool(configs, "--describe", *both) == (
        f"Quota configs for user-principal '{OAUTH}', client-id '{CLIENT}' are "
        "consumer_byte_rate=1048576.0, request_percentage=50.0\n"
    )
    assert tool(configs, "--alter", *address, "--add-config", "connection_creation_rate=100") == (
        "Completed updating config for ip 127.0.7.7.\n"
    )
    assert tool(configs, "--describe", *address) == (
        "Quota configs for ip '127.0.7.7' are connection_creation_rate=100.0\n"
    )
    tool(configs, "--alter", *both, "--delete-config", "consumer_byte_rate,request_percentage")
    assert tool(configs, "--describe", "--entity-type", "clients", "--entity-name", CLIENT) == ""


def test_kafka_acls_and_odradek_acls_for_who_may_and_who_may_not(
    guarded: Guarded, tool: Callable[..., str], tmp_path: Path
) -> None:
    acls, name = "kafka.admin.AclCommand", 'w "ü",*'
    what = ("--operation", "Read", "--group", name, "--allow-principal", f"User:{SUBJECT}")
    entry = f"(principal=User:{SUBJECT}, host=*, operation=READ, permissionType=ALLOW)"
    assert entry in tool(acls, "--add", *what)
    listed = tool(acls, "--list", "--group", name)
    assert f"`ResourcePattern(resourceType=GROUP, name={name}, patternType=LITERAL)`" in listed
    assert entry in listed
    file = guarded.client_file(tmp_path / "alice.properties", SCRAM, scram("alice", USERS["alice"]))
    assert "ClusterAuthorizationException" in tool(acls, "--list", config=file, code=1)
    where = ("-b", guarded.address(), "--command-config")
    said = odradek(guarded.cluster, "acls", "list", "--group", name, *where, str(tmp_path / "admin.properties"))
    assert said == f"group {name}: allow User:{SUBJECT} read from *\n"
    assert "CLUSTER_AUTHORIZATION_FAILED" in odradek(guarded.cluster, "acls", "list", *where, str(file), code=1)
    assert entry in tool(acls, "--list", "--principal", f"User:{SUBJECT}")
    tool(acls, "--remove", *what, "--force")
    assert entry not in tool(acls, "--list", "--group", name)


def test_confluent_kafka_is_told_what_it_may_not(guarded: Guarded) -> None:
    """Over SASL_SSL: a topic and a group that are allowed, then each that is not."""
    group = creation("team-", "User:alice", kind=GROUP, pattern=PREFIXED, operation=READ)
    allow(guarded, group)
    settings: dict[str, Any] = {
        "bootstrap.servers": guarded.address(),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": SCRAM,
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
        "ssl.ca.pem": guarded.authority.pem,
    }
    producer = Producer(settings)
    seen: list[KafkaError | None] = []
    for topic in (topic_of("scram"), "closed"):
        producer.produce(topic, b"by confluent", on_delivery=lambda error, _: seen.append(error))
        assert producer.flush(60) == 0
    assert seen[0] is None
    assert seen[1] is not None
    assert seen[1].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    for group_id, topic, code in (
        ("team-1", topic_of("scram"), None),
        ("others", topic_of("scram"), KafkaError.GROUP_AUTHORIZATION_FAILED),
        ("team-2", "closed", KafkaError.TOPIC_AUTHORIZATION_FAILED),
    ):
        consumer = Consumer({**settings, "group.id": group_id, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        message = consumer.poll(60)
        assert message is not None, (group_id, topic)
        error = message.error()
        assert (None if error is None else error.code()) == code
        consumer.close()


def test_kcat_writes_and_reads_what_it_may(guarded: Guarded, tmp_path: Path) -> None:
    authority = guarded.authority.pem_file(tmp_path / "ca.pem")

    def kcat(
        *arguments: str, records: bytes = b"", password: str = USERS["alice"]
    ) -> subprocess.CompletedProcess[bytes]:
        settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": SCRAM,
            "sasl.username": "alice",
            "sasl.password": password,
            "ssl.ca.location": str(authority),
        }
        named = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
        command = ["kcat", "-b", guarded.address(), *named, *arguments]
        return subprocess.run(command, input=records, capture_output=True, timeout=60, check=False)

    topic = topic_of("scram")
    written = kcat("-P", "-t", topic, records=b"by kcat\n")
    assert written.returncode == 0, written.stderr.decode()
    read = kcat("-C", "-t", topic, "-e", "-q")
    assert b"by kcat\n" in read.stdout, read.stderr
    assert b"authorization failed" in kcat("-P", "-t", "closed", records=b"x\n").stderr
    assert b"Authentication failed" in kcat("-L", "-m", "5", password="wrong").stderr
