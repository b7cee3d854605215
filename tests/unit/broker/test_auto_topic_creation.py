"""A topic that cannot be made is told of once, however often clients ask for it."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from broker.config.kafka_config import KafkaConfig
from broker.topics.auto_topic_creation import AutoTopicCreation
from broker.topics.topic_admin import TopicAdmin
from network.protocol.errors import ApiError, ErrorCode
from timer.clock import ManualClock
from timer.news import AGAIN_MS

OFFSETS = "__consumer_offsets"


class RefusingAdmin:
    """What an administration answers while there are fewer brokers than replicas."""

    def __init__(self) -> None:
        self.brokers = 1

    def create_topic(self, name: str, *_: object, **__: Any) -> None:
        if self.brokers < 3:
            text = f"Replication factor: 3 larger than available brokers: {self.brokers}."
            raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, text)


def test_the_offsets_topic_without_enough_brokers(caplog: pytest.LogCaptureFixture) -> None:
    clock, admin = ManualClock(), RefusingAdmin()
    config = KafkaConfig({"zookeeper.connect": "127.0.0.1:1", "broker.id": "0"})
    creation = AutoTopicCreation(config, cast(TopicAdmin, admin), clock)

    def told(times: int) -> list[str]:
        caplog.clear()
        for _ in range(times):
            creation.create([OFFSETS])
            clock.advance(1_000)
        return [record.getMessage() for record in caplog.records]

    with caplog.at_level(logging.WARNING):
        line = f"creating topic {OFFSETS} failed: INVALID_REPLICATION_FACTOR Replication factor: 3 larger than "
        assert told(100) == [f"{line}available brokers: 1."]
        admin.brokers = 2
        assert told(100) == [f"{line}available brokers: 2."]
        assert told(AGAIN_MS // 1_000) == [f"{line}available brokers: 2."]
        admin.brokers = 3
        assert told(1) == []
        admin.brokers = 1
        assert told(2) == [f"{line}available brokers: 1."]
