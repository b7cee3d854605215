"""Creating, growing and deleting topics: the checks, the znodes, and the wait for the metadata to show it.

The controller reacts to the znodes. Any broker may create a topic on its own account (auto-creation); the API handlers
run only on the active controller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from broker.config.keys import ConfigError
from broker.config.topic_config import validate_topic_overrides
from broker.topics.delayed_topics import DelayedCreatePartitions, DelayedDeleteTopics
from controller.replica_placement import assign_replicas
from network.protocol.errors import ApiError, ErrorCode, error_of
from network.protocol.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from network.protocol.messages.create_topics import CreatableTopic, CreatableTopicResult
from network.protocol.uuids import ZERO_UUID
from timer.chance import Chance
from timer.purgatory import DelayedOperation, Purgatory

if TYPE_CHECKING:
    from broker.cluster.metadata_cache import MetadataCache
    from broker.config.kafka_config import KafkaConfig
    from controller.zk.admin import AdminZkClient

logger = logging.getLogger(__name__)

_DEFAULT = -1

Charge = Callable[[int], None]
"""Told how many partitions are made or deleted, before they are. May raise THROTTLING_QUOTA_EXCEEDED."""


def free(count: int) -> None:
    """No quota."""


def validator(config: KafkaConfig) -> Callable[[Mapping[str, str]], None]:
    """`validate_topic_overrides` in the form `AdminZkClient` wants: failures are INVALID_CONFIG."""

    def validate(overrides: Mapping[str, str]) -> None:
        try:
            validate_topic_overrides(overrides, config)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None

    return validate


class TopicAdmin:
    """Methods may wait for ZooKeeper; call them from a handler thread."""

    def __init__(
        self,
        config: KafkaConfig,
        zk_admin: AdminZkClient,
        metadata_cache: MetadataCache,
        purgatory: Purgatory[DelayedOperation],
        chance: Chance,
    ) -> None:
        self._config = config
        self._zk_admin = zk_admin
        self._metadata_cache = metadata_cache
        self._purgatory = purgatory
        self._chance = chance

    @property
    def purgatory(self) -> Purgatory[DelayedOperation]:
        """Where those wait who asked for a topic."""
        return self._purgatory

    def check_waiting(self, topics: set[str]) -> None:
        """Metadata of these topics changed."""
        if self._purgatory.watched:
            for topic in topics:
                self._purgatory.check_and_complete(topic)

    def shutdown(self) -> None:
        self._purgatory.shutdown()

    # ------------------------------------------------------------------ create

    def create(
        self,
        topics: Sequence[CreatableTopic],
        timeout_ms: int,
        validate_only: bool,
        respond: Callable[[dict[str, CreatableTopicResult]], None],
        charge: Charge = free,
    ) -> None:
        """Create topics; `respond` is called when all of them have leaders, or at the timeout."""
        results = {topic.name: self._create_one(topic, validate_only, charge) for topic in topics}
        good = {name: result.num_partitions for name, result in results.items() if result.error_code == ErrorCode.NONE}
        if validate_only or not good:
            respond(results)
            return
        if timeout_ms <= 0:
            for name in good:
                results[name].error_code = ErrorCode.REQUEST_TIMED_OUT
            respond(results)
            return
        operation = DelayedCreatePartitions(timeout_ms, results, good, self._metadata_cache, lambda: respond(results))
        self._purgatory.try_complete_else_watch(operation, list(good))

    def _create_one(self, topic: CreatableTopic, validate_only: bool, charge: Charge) -> CreatableTopicResult:
        name = topic.name
        try:
            topic_id, assignment = self.create_topic(
                name,
                topic.num_partitions,
                topic.replication_factor,
                {entry.name: entry.value for entry in topic.configs},
                {entry.partition_index: entry.broker_ids for entry in topic.assignments},
                validate_only=validate_only,
                charge=charge,
            )
        except Exception as error:
            code, message = error_of(error)
            if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                logger.error("creating topic %s failed", name, exc_info=error)
            return CreatableTopicResult(name=name, error_code=code, error_message=message, configs=[])
        return CreatableTopicResult(
            name=name,
            error_message=None,
            topic_id=topic_id or ZERO_UUID,
            num_partitions=len(assignment),
            replication_factor=len(next(iter(assignment.values()))),
        )

    def create_topic(
        self,
        name: str,
        num_partitions: int = _DEFAULT,
        replication_factor: int = _DEFAULT,
        configs: Mapping[str, str | None] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
        charge: Charge = free,
    ) -> tuple[bytes | None, Mapping[int, Sequence[int]]]:
        """Check everything, then write the topic. Returns its id (if written) and assignment. Raises `ApiError`."""
        if self._metadata_cache.contains_topic(name):
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        overrides: dict[str, str] = {}
        nulls = []
        for key, value in (configs or {}).items():
            if value is None:
                nulls.append(key)
            else:
                overrides[key] = value
        if nulls:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
        assignment: Mapping[int, Sequence[int]]
        if assignments:
            if num_partitions != _DEFAULT or replication_factor != _DEFAULT:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at "
                    "the same time.",
                )
            assignment = assignments
        else:
            assignment = self._place(name, num_partitions, replication_factor)
        if validate_only:
            self._zk_admin.validate_new_topic(name, assignment, overrides)
            return None, assignment
        if charge is not free:
            self._zk_admin.validate_new_topic(name, assignment, overrides)
            charge(len(assignment))
        topic_id = self._zk_admin.create_topic(name, assignment, overrides)
        logger.info("created topic %s with %d partitions: %s", name, len(assignment), dict(assignment))
        return topic_id, assignment

    def _place(self, name: str, num_partitions: int, replication_factor: int) -> Mapping[int, Sequence[int]]:
        brokers = {broker.id: broker.rack for broker in self._metadata_cache.snapshot.brokers.values()}
        partitions = self._config.get_int("num.partitions") if num_partitions == _DEFAULT else num_partitions
        default = self._config.get_int("default.replication.factor")
        factor = default if replication_factor == _DEFAULT else replication_factor
        try:
            return assign_replicas(brokers, partitions, factor, chance=self._chance)
        except ApiError:
            # Where brokers are missing in what this one has been told, the topic may be too.
            if self._zk_admin.topic_exists(name):
                raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.") from None
            raise

    # ------------------------------------------------------------------ grow

    def create_partitions(
        self,
        topics: Sequence[CreatePartitionsTopic],
        timeout_ms: int,
        validate_only: bool,
        respond: Callable[[dict[str, CreatePartitionsTopicResult]], None],
        charge: Charge = free,
    ) -> None:
        """Add partitions to topics; `respond` is called when they have leaders, or at the timeout."""
        brokers = {broker.id: broker.rack for broker in self._metadata_cache.snapshot.brokers.values()}
        results: dict[str, CreatePartitionsTopicResult] = {}
        counts: dict[str, int] = {}
        for topic in topics:
            result = results[topic.name] = CreatePartitionsTopicResult(name=topic.name)
            assignments = None
            if topic.assignments is not None:
                assignments = [entry.broker_ids for entry in topic.assignments]
            try:
                if charge is not free and not validate_only:
                    added = self._zk_admin.add_partitions(
                        topic.name, topic.count, brokers, assignments, validate_only=True
                    )
                    charge(len(added))
                self._zk_admin.add_partitions(
                    topic.name, topic.count, brokers, assignments, validate_only=validate_only
                )
            except Exception as error:
                code, result.error_message = error_of(error)
                result.error_code = code
                if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                    logger.error("adding partitions to %s failed", topic.name, exc_info=error)
            else:
                counts[topic.name] = topic.count
        if validate_only or not counts:
            respond(results)
            return
        if timeout_ms <= 0:
            for name in counts:
                results[name].error_code = ErrorCode.REQUEST_TIMED_OUT
            respond(results)
            return
        operation = DelayedCreatePartitions(timeout_ms, results, counts, self._metadata_cache, lambda: respond(results))
        self._purgatory.try_complete_else_watch(operation, list(counts))

    # ------------------------------------------------------------------ delete

    def delete(
        self,
        topics: Sequence[str],
        timeout_ms: int,
        respond: Callable[[dict[str, ErrorCode]], None],
        charge: Charge = free,
    ) -> None:
        """Mark topics for deletion; `respond` is called when they are gone from the metadata, or at the timeout."""
        results = {name: self._delete_one(name, charge) for name in topics}
        good = [name for name, error in results.items() if error is ErrorCode.NONE]
        if good and timeout_ms > 0:
            operation = DelayedDeleteTopics(timeout_ms, results, self._metadata_cache, lambda: respond(results))
            self._purgatory.try_complete_else_watch(operation, good)
            return
        results.update(dict.fromkeys(good, ErrorCode.REQUEST_TIMED_OUT))
        respond(results)

    def _delete_one(self, name: str, charge: Charge) -> ErrorCode:
        try:
            charge(len(self._metadata_cache.snapshot.topics.get(name, ())))
            self._zk_admin.delete_topic(name)
        except Exception as error:
            code, _ = error_of(error)
            if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                logger.error("deleting topic %s failed", name, exc_info=error)
            return code
        return ErrorCode.NONE
