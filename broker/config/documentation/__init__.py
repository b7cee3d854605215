"""What each key does, in a sentence or two: what DescribeConfigs tells and the reference page shows."""

from __future__ import annotations

from collections.abc import Mapping

from broker.config.broker_keys import BROKER_KEYS
from broker.config.documentation import cluster, coordinators, network, odradek, security, storage, topics
from broker.config.honoured import NOT_HONOURED, TOPIC_NOT_HONOURED, Unkept
from broker.config.topic_keys import TOPIC_KEYS


def _told(texts: Mapping[str, str], unkept: Mapping[str, Unkept]) -> dict[str, str]:
    """With what happens instead, where a promise is not kept."""
    return {
        name: f"{text} Not honoured: {unkept[name].instead}." if name in unkept else text
        for name, text in texts.items()
    }


def _broker() -> dict[str, str]:
    texts = {
        key.broker_key: f"Default of the topic config {key.name}. {topics.TOPIC[key.name]}"
        for key in TOPIC_KEYS.values()
        if key.broker_key is not None
    }
    for part in (cluster, network, storage, coordinators, security, odradek):
        texts.update(part.KEYS)
    return _told({name: texts[name] for name in BROKER_KEYS}, NOT_HONOURED)


BROKER: dict[str, str] = _broker()
TOPIC: dict[str, str] = _told(topics.TOPIC, TOPIC_NOT_HONOURED)
GROUP: dict[str, str] = topics.GROUP
CLIENT_METRICS: dict[str, str] = topics.CLIENT_METRICS
