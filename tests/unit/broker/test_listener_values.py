"""Which value holds on a listener."""

from __future__ import annotations

import pytest

from broker.config.kafka_config import KafkaConfig
from broker.config.listener_values import ListenerValues
from network.client.security import chain

BASE = {"zookeeper.connect": "127.0.0.1:1", "broker.id": "1"}


def test_own_value_goes_first_at_every_level() -> None:
    config = KafkaConfig({**BASE, "connections.max.idle.ms": "5", "connection.failed.authentication.delay.ms": "1"})
    values = ListenerValues(config, "PLAINTEXT")
    assert values["connections.max.idle.ms"] == 5
    config.originals["listener.name.plaintext.connections.max.idle.ms"] = "7"
    assert values["connections.max.idle.ms"] == 7
    config.originals["listener.name.plaintext.scram-sha-256.connections.max.idle.ms"] = "8"
    assert values.of_mechanism("SCRAM-SHA-256", "connections.max.idle.ms") == 8
    assert values.of_mechanism("PLAIN", "connections.max.idle.ms") == 7
    assert ListenerValues(config, "OTHER")["connections.max.idle.ms"] == 5


def test_dynamic_values_show_and_the_file_s_own_value_goes_before_a_dynamic_one_for_all() -> None:
    config = KafkaConfig({**BASE, "listener.name.plaintext.num.network.threads": "3"})
    values = ListenerValues(config, "plaintext")
    config.use_dynamic({"num.network.threads": "2"}, {})
    assert values["num.network.threads"] == 3
    config.use_dynamic({"listener.name.plaintext.num.network.threads": "4"}, {})
    assert values["num.network.threads"] == 4


def test_a_name_that_is_no_key() -> None:
    with pytest.raises(KeyError):
        ListenerValues(KafkaConfig(BASE), "PLAINTEXT")["no.key"]


def test_wrappers_are_applied_in_order() -> None:
    assert chain([]) is None
    seen: list[tuple[object, str]] = []

    def wrapper(answer: object) -> object:
        def wrap(sock: object, host: str) -> object:
            seen.append((sock, host))
            return answer

        return wrap

    both = chain([wrapper("tls"), wrapper("sasl")])  # type: ignore[list-item]
    assert both is not None
    assert both("plain", "here") == "sasl"  # type: ignore[arg-type, comparison-overlap]
    assert seen == [("plain", "here"), ("tls", "here")]
