"""What a request may not make of a running broker, whoever asks."""

from __future__ import annotations

import pytest

from broker.config.dynamic_checks import validate_own
from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError

FILE = {
    "zookeeper.connect": "127.0.0.1:1",
    "broker.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:1",
    "listener.name.new.plain.sasl.server.callback.handler.class": "own.module:Passwords",
}
BUILT_IN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


def check(name: str, text: str) -> None:
    validate_own({}, {name: text}, KafkaConfig(FILE), lambda endpoint, values, with_port: None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("listener.name.new.plain.sasl.server.callback.handler.class", "subprocess:Popen"),
        ("listener.name.new.sasl.client.callback.handler.class", "os:_wrap_close"),
        ("listener.name.new.oauthbearer.sasl.login.callback.handler.class", "own.module:Tokens"),
        ("listener.name.new.sasl.oauthbearer.jwks.endpoint.url", "file:///etc/passwd"),
        ("listener.name.new.oauthbearer.sasl.oauthbearer.token.endpoint.url", "http://169.254.169.254/"),
    ],
)
def test_code_that_runs_and_whom_a_broker_asks_stand_in_its_file(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match="can only be set in the broker's file") as caught:
        check(name, text)
    assert text not in str(caught.value)


def test_what_the_file_says_and_what_is_built_in_may_be_said_again() -> None:
    name = "listener.name.new.plain.sasl.server.callback.handler.class"
    check(name, FILE[name])
    check("listener.name.new.oauthbearer.sasl.server.callback.handler.class", BUILT_IN)
