"""What is said behind an error of the protocol or of a connection."""

from __future__ import annotations

import ssl

import pytest

from broker.cli.client import describe
from broker.cli.cures import unreachable
from network.client.connection import ConnectionFailed
from network.protocol.errors import ErrorCode


@pytest.mark.parametrize(
    ("alert", "cure"),
    [
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required", "ssl.keystore.location"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch", "ssl.truststore.location"),
    ],
)
def test_certificates(alert: str, cure: str) -> None:
    error = ConnectionFailed(f"127.0.0.1:9092: {alert}")
    error.__cause__ = ssl.SSLError(alert)
    assert cure in unreachable("127.0.0.1:9092", error)


def test_names_of_topics() -> None:
    collides = describe(ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topics: a.b")
    assert collides.endswith("'.' and '_' count as the same: choose another name")
    assert describe(ErrorCode.INVALID_TOPIC_EXCEPTION, None).endswith("a name has letters, digits, '.', '_' and '-'")


def test_a_topic_that_a_command_names() -> None:
    text = describe(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nope")
    assert text.startswith("there is no topic or partition nope (UNKNOWN_TOPIC_OR_PARTITION); ")
