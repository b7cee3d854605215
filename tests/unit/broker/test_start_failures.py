"""What is said of a configuration that is refused: the key, its value, and what is allowed."""

from __future__ import annotations

import pytest

from broker.config.broker_keys import BROKER_KEYS
from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError, ConfigType
from broker.start_failures import config_explained, explain
from controller.zk.session import SessionExpiredError

GIVEN = {"zookeeper.connect": "127.0.0.1:1", "log.dirs": "/data"}
LINES = [
    ({"log.retention.hours": "-99"}, "(log.retention.hours=-99)"),
    ({"node.id": "7", "broker.id": "8"}, "(node.id=7) (broker.id=8)"),
    ({"replica.lag.time.max.ms": "1"}, "(replica.lag.time.max.ms=1)"),
    ({"authorizer.class.name": "com.example.Own"}, "(authorizer.class.name=com.example.Own)"),
    ({"log.cleaner.dedupe.buffer.size": "1"}, "(log.cleaner.dedupe.buffer.size=1)"),
]


def said(properties: dict[str, str]) -> str | None:
    try:
        KafkaConfig(properties)
    except ConfigError as error:
        return config_explained(str(error), properties)
    return None


@pytest.mark.parametrize(("properties", "part"), LINES, ids=lambda each: str(each))
def test_values_that_the_text_does_not_have_stand_behind_it(properties: dict[str, str], part: str) -> None:
    line = said({**GIVEN, **properties})
    assert line is not None
    assert part in line


def test_a_value_stands_once() -> None:
    line = said({**GIVEN, "num.io.threads": "many"})
    assert line is not None
    assert line.count("many") == 1


def test_a_session_that_ends_during_the_start_is_no_unforeseen_failure() -> None:
    said = explain(SessionExpiredError(), KafkaConfig(GIVEN))
    assert said == "ZooKeeper session expired while this broker started; start it again"


def test_no_password_is_told() -> None:
    text = "ssl.keystore.password and delegation.token.secret.key do not fit"
    secrets = {"ssl.keystore.password": "secret", "delegation.token.secret.key": "secret"}
    assert "=secret" not in config_explained(text, secrets)
    keys = "sasl.oauthbearer.jwks.endpoint.url"
    text = f"{keys}: https://issuer/keys cannot be read"
    assert "secret" not in config_explained(text, {keys: "https://me:secret@issuer/keys?key=secret"})


@pytest.mark.parametrize("value", ["nonsense", "-99", "0", "1e400", "9" * 30, "a,b,,c"])
def test_every_refusal_of_one_key_names_key_and_value_in_one_line(value: str) -> None:
    for name in BROKER_KEYS:
        line = said({**GIVEN, name: value})
        if line is None or BROKER_KEYS[name].type is ConfigType.PASSWORD:
            continue
        assert name in line or name == "node.id", line  # which is told as broker.id
        assert value in line or value.upper() in line or "can only be set dynamically" in line, line
        assert "\n" not in line
