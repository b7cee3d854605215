"""Topics that come into being because somebody asked for them.

Internal topics get the settings their coordinators need. A topic whose creation is going on is not created a second
time; whoever asked gets a retriable error until the metadata shows it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from broker.config.kafka_config import KafkaConfig
from broker.coordinator.internal_topic_names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from broker.topics.topic_admin import Charge, TopicAdmin, free
from controller.topic_names import topic_name_fault
from network.protocol.errors import ErrorCode, error_of
from timer.clock import Clock
from timer.news import News

logger = logging.getLogger(__name__)

_OF_THE_MOMENT = (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.UNKNOWN_SERVER_ERROR)
"""Failures that may be of this broker alone: it has not been told of the others, or ZooKeeper is away."""


class AutoTopicCreation:
    """Thread-safe. `create` may wait for ZooKeeper."""

    def __init__(self, config: KafkaConfig, admin: TopicAdmin, clock: Clock, is_controller: Callable[[], bool]) -> None:
        self._config = config
        self._admin = admin
        self._is_controller = is_controller
        self._lock = threading.Lock()
        self._in_flight: set[str] = set()
        self._failures = News(clock)

    def create(self, topics: Iterable[str], charge: Charge = free) -> dict[str, ErrorCode]:
        """Create what is not there. LEADER_NOT_AVAILABLE means: created, or existing, and soon usable."""
        results: dict[str, ErrorCode] = {}
        for name in topics:
            if topic_name_fault(name) is not None:
                results[name] = ErrorCode.INVALID_TOPIC_EXCEPTION
                continue
            with self._lock:
                busy = name in self._in_flight
                self._in_flight.add(name)
            if busy:
                results[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            try:
                results[name] = self._create(name, charge)
            finally:
                with self._lock:
                    self._in_flight.discard(name)
        return results

    def _create(self, name: str, charge: Charge) -> ErrorCode:
        partitions, factor, configs = self._settings(name)
        try:
            self._admin.create_topic(name, partitions, factor, configs, charge=charge)
        except Exception as error:
            code, message = error_of(error)
            if code is ErrorCode.TOPIC_ALREADY_EXISTS:
                return ErrorCode.LEADER_NOT_AVAILABLE
            # Clients that wait for the topic ask again and again.
            if self._failures.is_new(name, (code, message)):
                if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                    logger.error("creating topic %s failed", name, exc_info=error)
                else:
                    logger.warning("creating topic %s failed: %s %s", name, code.name, message)
            if code in _OF_THE_MOMENT and not self._is_controller():
                # Clients take these for final. Kafka's brokers ask the controller, and answer this meanwhile.
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return code
        self._failures.is_over(name)
        return ErrorCode.LEADER_NOT_AVAILABLE

    def _settings(self, name: str) -> tuple[int, int, dict[str, str | None]]:
        config = self._config
        if name == OFFSETS_TOPIC:
            return (
                config.get_int("offsets.topic.num.partitions"),
                config.get_int("offsets.topic.replication.factor"),
                {
                    "cleanup.policy": "compact",
                    "segment.bytes": str(config["offsets.topic.segment.bytes"]),
                    "compression.type": "producer",
                },
            )
        if name == TRANSACTION_TOPIC:
            return (
                config.get_int("transaction.state.log.num.partitions"),
                config.get_int("transaction.state.log.replication.factor"),
                {
                    "unclean.leader.election.enable": "false",
                    "compression.type": "uncompressed",
                    "cleanup.policy": "compact",
                    "min.insync.replicas": str(config["transaction.state.log.min.isr"]),
                    "segment.bytes": str(config["transaction.state.log.segment.bytes"]),
                },
            )
        return -1, -1, {}
