"""When a client may ask and push: answers and order as a running Kafka 3.9.1 in KRaft mode gave them."""

from __future__ import annotations

import pytest

from broker.telemetry.clients import MAX_CLIENTS, MIN_EXPIRY_MS, Clients
from broker.telemetry.subscriptions import ClientSubscription, Subscriptions
from network.protocol.errors import ApiError
from network.protocol.errors import ErrorCode as E
from timer.clock import ManualClock

INTERVAL_MS = 1_000
MAX_BYTES = 100
CLIENT = bytes(range(16))
ATTRIBUTES = {"client_id": "me"}


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.subscriptions = Subscriptions()
        self.subscriptions.on_change("s", {"metrics": "org.b, org.a", "interval.ms": str(INTERVAL_MS)})
        self.clients = Clients(self.subscriptions, self.clock, max_bytes=MAX_BYTES)
        self.id = 0

    def ask(self, client: bytes = CLIENT) -> E:
        try:
            self.id = self.clients.subscribe(client, ATTRIBUTES).id
        except ApiError as error:
            return error.code
        return E.NONE

    def push(
        self,
        client: bytes = CLIENT,
        *,
        id: int | None = None,
        terminating: bool = False,
        codec: bool = True,
        size: int = 0,
    ) -> E:
        wanted = self.id if id is None else id
        try:
            self.clients.check_push(
                client, ATTRIBUTES, wanted, terminating=terminating, is_codec_known=codec, size=size
            )
        except ApiError as error:
            return error.code
        return E.NONE


@pytest.fixture
def world() -> World:
    return World()


def test_one_question_and_one_push_an_interval(world: World) -> None:
    assert world.ask() is E.NONE
    assert world.ask() is E.THROTTLING_QUOTA_EXCEEDED
    assert world.push() is E.NONE  # at once after the answer
    assert world.push() is E.THROTTLING_QUOTA_EXCEEDED
    world.clock.advance(INTERVAL_MS - 1)
    assert world.push() is E.THROTTLING_QUOTA_EXCEEDED
    assert world.ask() is E.THROTTLING_QUOTA_EXCEEDED
    world.clock.advance(1)
    assert world.push() is E.NONE
    assert world.clients.throttled == 4


def test_too_early_comes_before_what_else_is_wrong(world: World) -> None:
    world.ask()
    world.push()
    assert world.push(id=world.id + 1) is E.THROTTLING_QUOTA_EXCEEDED
    world.clock.advance(INTERVAL_MS)
    assert world.push(id=world.id + 1, codec=False, size=MAX_BYTES + 1) is E.UNKNOWN_SUBSCRIPTION_ID
    world.clock.advance(INTERVAL_MS)
    assert world.push(codec=False, size=MAX_BYTES + 1) is E.UNSUPPORTED_COMPRESSION_TYPE
    world.clock.advance(INTERVAL_MS)
    assert world.push(size=MAX_BYTES + 1) is E.TELEMETRY_TOO_LARGE
    world.clock.advance(INTERVAL_MS)
    assert world.push(size=MAX_BYTES) is E.NONE
    assert world.clients.unknown == 1


def test_who_is_told_that_the_subscription_is_another_may_ask_and_push_at_once(world: World) -> None:
    world.ask()
    assert world.push(id=world.id + 1) is E.UNKNOWN_SUBSCRIPTION_ID
    assert world.ask() is E.NONE
    assert world.push() is E.NONE


def test_nothing_is_taken_after_the_last_push(world: World) -> None:
    world.ask()
    world.push()
    assert world.push(terminating=True) is E.NONE  # never too early
    assert world.push(terminating=True) is E.INVALID_REQUEST
    assert world.push() is E.INVALID_REQUEST
    assert world.push() is E.THROTTLING_QUOTA_EXCEEDED  # as Kafka: the last push did not say that it is the last


def test_a_push_of_a_client_that_never_asked_counts(world: World) -> None:
    """It came from another broker, say."""
    assert world.push(id=5) is E.UNKNOWN_SUBSCRIPTION_ID
    assert world.push(id=5) is E.THROTTLING_QUOTA_EXCEEDED


def test_a_changed_subscription_is_told_at_once(world: World) -> None:
    world.ask()
    before = world.id
    world.subscriptions.on_change("s", {"metrics": "*", "interval.ms": "2000"})
    assert world.push() is E.UNKNOWN_SUBSCRIPTION_ID
    assert world.ask() is E.NONE
    assert world.id != before
    assert world.ask() is E.THROTTLING_QUOTA_EXCEEDED


def test_clients_are_forgotten_after_a_while_and_when_there_are_too_many(world: World) -> None:
    world.ask()
    world.clock.advance(MIN_EXPIRY_MS - 1)
    world.clients.expire()
    assert len(world.clients) == 1
    world.clock.advance(1)
    world.clients.expire()
    assert len(world.clients) == 0
    for number in range(MAX_CLIENTS + 3):
        world.ask(number.to_bytes(16))
    assert len(world.clients) == MAX_CLIENTS
    assert world.ask((0).to_bytes(16)) is E.NONE  # put out, so it is a new one
    assert world.ask((MAX_CLIENTS).to_bytes(16)) is E.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.parametrize(
    ("client", "interval_ms", "expected"),
    [
        ("1bfdecdd65c04aabab76c055c523f73d", 1000, 585311143),
        ("27d6aee3d3fa4c66b366e623a95b0ab6", 1500, -419067187),
        ("d7158268bc2042d3b6b90cd2dde8fa34", 2000, 1355615709),
        ("46d0e8df311646fcb696393d0d5cb3b4", 300000, -262591607),
        ("00000000000000000000000000000001", 1000, 848016056),
    ],
)
def test_ids_of_subscriptions_are_those_that_kafka_gave(client: str, interval_ms: int, expected: int) -> None:
    assert ClientSubscription.of(bytes.fromhex(client), {"*", "org.a"}, interval_ms).id == expected


def test_a_client_gets_what_all_its_subscriptions_ask_for(world: World) -> None:
    def of(**attributes: str) -> tuple[tuple[str, ...], int]:
        _, found = world.subscriptions.of_client(CLIENT, {"client_id": "", "client_software_name": "", **attributes})
        return found.metrics, found.interval_ms

    world.subscriptions.on_change("s", {})
    assert of() == ((), 300_000)
    world.subscriptions.on_change(
        "long", {"metrics": "org.b,org.a", "interval.ms": "3600000", "match": "client_id=a.*"}
    )
    assert of(client_id="ab") == (("org.a", "org.b"), 300_000)
    world.subscriptions.on_change(
        "short", {"metrics": "org.a,org.c", "interval.ms": "100", "match": "client_id=a.*,client_software_name=x"}
    )
    assert of(client_id="ab", client_software_name="x") == (("org.a", "org.b", "org.c"), 100)
    assert of(client_id="ab") == (("org.a", "org.b"), 300_000)
    assert of(client_id="b") == ((), 300_000)
    world.subscriptions.on_change("all", {"metrics": "*"})
    assert of(client_id="ab") == (("*",), 300_000)
    assert world.subscriptions.names() == ["all", "long", "short"]
