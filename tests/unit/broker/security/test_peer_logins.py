"""Logins to other brokers while the configuration changes: when the next token of an identity provider is got."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.config.kafka_config import KafkaConfig
from broker.security.sasl.peer_logins import PeerLogins
from network.oauth.access_token import AccessToken
from tests.support.sasl import begun_login
from timer.clock import ManualClock

HOUR_S = 3600
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
FACTOR, JITTER = "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter"
LEAST, BUFFER = "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.buffer.seconds"
PROPERTIES = {
    "zookeeper.connect": "127.0.0.1:1",
    "broker.id": "1",
    "listeners": "OUT://127.0.0.1:2",
    "listener.security.protocol.map": "OUT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "OUT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "listener.name.out.oauthbearer.sasl.jaas.config": f"{OAUTH} required;",
    "listener.name.out.oauthbearer.sasl.login.callback.handler.class": f"{__name__}:Provider",
    JITTER: "0",
}


class Provider:
    """Gives tokens for an hour, and keeps when it was asked."""

    clock = ManualClock()
    asked: list[int] = []

    def token(self) -> AccessToken:
        now = self.clock.wall_ms()
        self.asked.append(now)
        return AccessToken("text", now + 1000 * HOUR_S, now)


@pytest.fixture
def clock() -> Iterator[ManualClock]:
    Provider.clock = ManualClock()
    yield Provider.clock
    Provider.asked.clear()


@pytest.mark.parametrize(
    ("changed", "expected_s"),
    [
        ({}, 2880),
        ({FACTOR: "0.5"}, 1800),
        ({FACTOR: "1.0", BUFFER: "600"}, 3000),
        ({FACTOR: "1.0", BUFFER: "0"}, 3600),
        ({FACTOR: "1.0", BUFFER: "3000", LEAST: "590"}, 600),
        ({FACTOR: "1.0", BUFFER: "3000", LEAST: "700"}, 3600),
    ],
)
def test_the_next_token_is_got_when_the_values_of_now_say_so(
    changed: dict[str, str], expected_s: int, clock: ManualClock
) -> None:
    assert _next_token_s(changed, clock) == expected_s


def test_a_part_of_the_time_varies(clock: ManualClock) -> None:
    """By the token, so twice the same for one."""
    first = _next_token_s({FACTOR: "0.5", JITTER: "0.25"}, clock)
    assert 1800 < first < 2700
    assert _next_token_s({FACTOR: "0.5", JITTER: "0.25"}, clock) == first


def _next_token_s(changed: dict[str, str], clock: ManualClock) -> int:
    """Seconds from the first token after the change to the next one; connections are made all the while."""
    config = KafkaConfig(PROPERTIES)
    logins = PeerLogins(config, clock)
    wrap = logins.wrapper("OUT")

    config.use_dynamic(changed, {})
    logins.reload()
    Provider.asked.clear()
    begun_login(wrap)
    while len(Provider.asked) < 2:
        clock.advance(10_000)
        begun_login(wrap)
    first, second = Provider.asked
    return (second - first) // 1000
