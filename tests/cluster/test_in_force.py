"""How soon a change of who may what is in force: on each of three brokers, asked all the while, at the same time.

What is measured is printed (`pytest -s`) and kept as a property of the test. It begins when the change is asked for.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from network.client.connection import Connection, ConnectionFailed
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from network.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from network.protocol.messages.metadata import MetadataRequest
from tests.contract.test_acls import create, creation, filter_of
from tests.contract.test_quotas import alter as alter_quota
from tests.contract.test_sasl import deletion, upsertion
from tests.support import wire
from tests.support.cluster import CLOCK, HOST, Broker, Kind
from tests.support.configs import BROKER, alter_config
from tests.support.guarded import SECURE, Guarded, running_guarded, scram, seen_topics

IN_FORCE_MS = 60_000
"""Generous: what is measured is that of a machine with other work."""
PAUSE_S = 0.002
DESCRIBE = 8
KINDS: dict[str, list[Kind]] = {"ours": ["odradek"] * 3, "mixed": ["odradek", "kafka", "odradek"]}

Asks = Callable[[Connection], bool]


@pytest.fixture(scope="module", params=KINDS)
def guarded(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    name = f"in-force-{request.param}"
    with running_guarded(KINDS[request.param], tmp_path_factory.mktemp(name), f"{zookeeper}/{name}") as made:
        wire.create_topic(made.cluster, "shared", replication_factor=3)
        yield made


def measure(
    record: Callable[[str, object], None],
    guarded: Guarded,
    what: str,
    holds: Callable[[int], bool],
    change: Callable[[], None],
) -> None:
    """`holds(number)` asks broker `number`; it does not hold before, and then on all."""
    numbers = range(len(guarded.cluster.brokers))
    began = threading.Event()
    since: list[float] = []

    def watch(number: int) -> float:
        assert not holds(number), f"{what} holds already on {number}"
        ready.wait()
        began.wait()
        while not holds(number):
            assert CLOCK.monotonic_ms() - since[0] < IN_FORCE_MS, f"{what} is not in force on {number}"
            wire.pause(PAUSE_S)
        return CLOCK.monotonic_ms() - since[0]

    ready = threading.Barrier(len(numbers) + 1)
    with ThreadPoolExecutor(len(numbers)) as pool:
        futures = [pool.submit(watch, number) for number in numbers]
        ready.wait(60)
        since.append(CLOCK.monotonic_ms())
        began.set()
        change()
        took = [round(future.result()) for future in futures]
    kinds = [broker.kind for broker in guarded.cluster.brokers]
    text = ", ".join(f"{kind} {ms} ms" for kind, ms in zip(kinds, took, strict=True))
    record(what, text)
    print(f"\n{what}: {text}")


def set_user(guarded: Guarded, password: str | None) -> None:
    with guarded.cluster.client() as client:
        request = AlterUserScramCredentialsRequest(
            deletions=[deletion("erin")] if password is None else [],
            upsertions=[] if password is None else [upsertion("erin", password)],
        )
        (result,) = client.call_controller(request).results
    assert result.error_code == 0, result.error_message


def enters(guarded: Guarded, number: int, password: str) -> bool:
    try:
        guarded.log_in("SCRAM-SHA-256", scram("erin", password), number=number).close()
        return True
    except ConnectionFailed as error:
        if "Authentication failed" not in str(error):
            raise
        return False


def test_passwords_and_users(guarded: Guarded, record_property: Callable[[str, object], None]) -> None:
    def good(password: str) -> Callable[[int], bool]:
        return lambda number: enters(guarded, number, password)

    def bad(password: str) -> Callable[[int], bool]:
        return lambda number: not enters(guarded, number, password)

    def setting(password: str | None) -> Callable[[], None]:
        return lambda: set_user(guarded, password)

    measure(record_property, guarded, "a user is made", good("first"), setting("first"))
    measure(record_property, guarded, "a password is changed, the new one", good("second"), setting("second"))
    measure(record_property, guarded, "a password is changed, the old one", bad("second"), setting("third"))
    measure(record_property, guarded, "a user is deleted", bad("third"), setting(None))


@pytest.fixture
def clients(guarded: Guarded) -> Iterator[list[Connection]]:
    """Of the one who is granted and limited: open all the while."""
    made = [
        guarded.log_in("OAUTHBEARER", {"unsecuredLoginStringClaim_sub": "frank"}, number=number)
        for number in range(len(guarded.cluster.brokers))
    ]
    yield made
    for connection in made:
        connection.close()


def test_permissions_of_open_connections(
    guarded: Guarded, clients: list[Connection], record_property: Callable[[str, object], None]
) -> None:
    wanted = filter_of(DeleteAclsFilter, {"name": "shared", "principal": "User:frank"})

    def add() -> None:
        (result,) = create(guarded.cluster, creation("shared", "User:frank", operation=DESCRIBE))
        assert result[0] == "NONE"

    def remove() -> None:
        (result,) = wire.call(guarded.broker, DeleteAclsRequest(filters=[wanted]), 3).filter_results
        assert [ErrorCode.of(acl.error_code) for acl in result.matching_acls] == [ErrorCode.NONE]

    def sees(number: int) -> bool:
        return "shared" in seen_topics(clients[number])

    measure(record_property, guarded, "an ACL is added", sees, add)
    measure(record_property, guarded, "an ACL is removed", lambda number: not sees(number), remove)


def test_a_certificate_with_clients_connected(
    guarded: Guarded, clients: list[Connection], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Of every broker, by a request to each; new connections see it, and those that are open go on."""
    following = guarded.authority.issue()
    path = following.pkcs12_file(tmp_path / "next.p12")
    context = ssl.create_default_context(cadata=guarded.authority.pem)

    def shows(number: int) -> bool:
        with (
            socket.create_connection((HOST, guarded.ports[number][SECURE]), 30) as sock,
            context.wrap_socket(sock, server_hostname="localhost") as tls,
        ):
            return tls.getpeercert(binary_form=True) == following.certificate.public_bytes(Encoding.DER)

    def replace(broker: Broker) -> None:
        key = f"listener.name.{SECURE.lower()}.ssl.keystore.location"
        alter_config(broker, BROKER, str(broker.broker_id), **{key: str(path)})

    def replace_all() -> None:
        with ThreadPoolExecutor(len(guarded.cluster.brokers)) as pool:
            list(pool.map(replace, guarded.cluster.brokers))

    measure(record_property, guarded, "a certificate is replaced", shows, replace_all)
    for connection in clients:
        assert connection.call(MetadataRequest(topics=[]), 9).brokers


def test_a_quota_of_open_connections(
    guarded: Guarded, clients: list[Connection], record_property: Callable[[str, object], None]
) -> None:
    def is_limited(number: int) -> bool:
        return bool(clients[number].call(MetadataRequest(topics=[]), 9).throttle_time_ms)

    def limit() -> None:
        assert alter_quota(guarded.broker, [("user", "frank")], request_percentage=0.0001) == (0, None)

    measure(record_property, guarded, "a quota is set", is_limited, limit)
