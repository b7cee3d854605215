from __future__ import annotations

from pathlib import Path

import pytest

from broker.config import documentation, reference_page
from broker.config.broker_keys import BROKER_KEYS
from broker.config.client_metrics_keys import CLIENT_METRICS_KEYS
from broker.config.documentation import cluster, coordinators, network, security, storage
from broker.config.group_keys import GROUP_KEYS
from broker.config.honoured import NOT_HONOURED
from broker.config.topic_keys import TOPIC_KEYS

PARTS = (cluster, coordinators, network, security, storage)


def test_every_key_has_its_text_and_no_text_is_without_a_key() -> None:
    assert documentation.BROKER.keys() == BROKER_KEYS.keys()
    assert documentation.TOPIC.keys() == TOPIC_KEYS.keys()
    assert documentation.GROUP.keys() == GROUP_KEYS.keys()
    assert documentation.CLIENT_METRICS.keys() == CLIENT_METRICS_KEYS.keys()
    for part in PARTS:
        assert not part.KEYS.keys() - BROKER_KEYS.keys()
    assert sum(len(part.KEYS) for part in PARTS) == len({name for part in PARTS for name in part.KEYS})


def test_texts_are_sentences() -> None:
    for texts in (documentation.BROKER, documentation.TOPIC, documentation.GROUP, documentation.CLIENT_METRICS):
        for name, text in texts.items():
            assert text.endswith("."), name
            assert "  " not in text, name
            assert len(text) < 500, name


def test_texts_say_what_is_not_honoured() -> None:
    assert documentation.BROKER["principal.builder.class"].endswith(
        f"Not honoured: {NOT_HONOURED['principal.builder.class'].instead}."
    )
    told = {name for name, text in documentation.BROKER.items() if "Not honoured" in text}
    assert told == NOT_HONOURED.keys()


@pytest.mark.parametrize(
    ("name", "kafka"),
    [
        ("num.io.threads", "8"),
        ("num.network.threads", "3"),
        ("socket.receive.buffer.bytes", "102400"),
    ],
)
def test_other_defaults_than_kafkas_are_told(name: str, kafka: str) -> None:
    text = documentation.BROKER[name]
    assert f"Kafka's default is {kafka}; here it is {BROKER_KEYS[name].default}" in text


def test_the_page_is_what_the_tables_say() -> None:
    """Else: python -m broker.config.reference_page > docs/configuration.md"""
    written = (Path(__file__).resolve().parents[3] / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == reference_page.page()
    for name in (*BROKER_KEYS, *TOPIC_KEYS, *GROUP_KEYS, *CLIENT_METRICS_KEYS):
        assert f"| `{name}` |" in written
