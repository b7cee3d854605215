"""Administrators by script: the topics that the others use, and orders that change topics while everything fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from network.client.connection import ConnectionFailed
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from network.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from network.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from network.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from network.protocol.messages.elect_leaders import ElectLeadersRequest
from tests.simulation.real.client import PARTITIONS, Client
from tests.simulation.real.tables import CONFIG, TABLE

ORDER_MS = 2_000
TOPICS = ("queue", "bank", "work", TABLE)
MOST_PARTITIONS = 4
_AGAIN = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.REASSIGNMENT_IN_PROGRESS,
)


class Admin(Client):
    """Makes the topics of the others, and ends."""

    def work(self) -> None:
        replicas = min(3, len(self.cluster.brokers))
        configs = {TABLE: [CreatableTopicConfig(name=name, value=value) for name, value in CONFIG.items()]}
        topics = [
            CreatableTopic(
                name=name, num_partitions=PARTITIONS, replication_factor=replicas, configs=configs.get(name, [])
            )
            for name in TOPICS
        ]

        def attempt() -> bool | None:
            answer = self.ask(self.any_broker(), CreateTopicsRequest(topics=topics, timeout_ms=3000), 4)
            codes = {each.error_code for each in answer.topics}
            return True if codes <= {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS} else None

        self.until(attempt)


class Operator(Client):
    """Gives one order after the other, each until it is carried out or refused for good.

    An order whose answer was lost may be carried out at any time later, or twice: what it is about is not held to
    anything from then on but to being in one piece.
    """

    def work(self) -> None:
        while self.more():
            self.pause(self.rng.randint(50, 1_500))
            self.rng.choice((self._elect, self._elect, self._reassign, self._reassign, self._topic))()

    def _carry_out(self, what: Any, request: Any, version: int, code_of: Callable[[Any], int]) -> ErrorCode:
        """The answer that settles it."""

        def attempt() -> ErrorCode | None:
            connection = self.connection(self.any_broker())
            try:
                code = ErrorCode.of(code_of(connection.call(request, version)))
            except ConnectionFailed:
                self.history.unsure.add(what)
                raise
            if code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR):
                self.history.unsure.add(what)
            return None if code in _AGAIN else code

        code: ErrorCode = self.until(attempt)
        return code

    def _elect(self) -> None:
        """Preferred leaders for all: whoever is not in sync may not be one."""
        request = ElectLeadersRequest(topic_partitions=None, timeout_ms=ORDER_MS)
        self._carry_out("leaders", request, 2, lambda answer: int(answer.error_code))
        self.cluster.note("preferred leaders are elected")

    def _reassign(self) -> None:
        topic, partition = self.rng.choice(TOPICS), self.rng.randrange(PARTITIONS)
        replicas = self.rng.sample(sorted(self.cluster.brokers), self.rng.choice((2, 3, 3)))
        wanted = ReassignableTopic(
            name=topic, partitions=[ReassignablePartition(partition_index=partition, replicas=replicas)]
        )
        request = AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=ORDER_MS)
        code = self._carry_out(
            (topic, partition),
            request,
            0,
            lambda answer: int(answer.error_code or answer.responses[0].partitions[0].error_code),
        )
        self.cluster.note(f"{topic}-{partition} shall move to {replicas}: {code.name}")
        if code is ErrorCode.NONE:
            self.history.moved[(topic, partition)] = replicas

    def _topic(self) -> None:
        """One that is made, grows and goes; a name may come again."""
        name = self.rng.choice(("passing-1", "passing-2"))
        known = self.history.topics.get(name, 0)
        grows = self.rng.random() < 0.5 and known < MOST_PARTITIONS
        if known == 0:
            made = CreatableTopic(name=name, num_partitions=1, replication_factor=2)
            request: Any = CreateTopicsRequest(topics=[made], timeout_ms=ORDER_MS)
            code = self._carry_out(name, request, 4, lambda answer: int(answer.topics[0].error_code))
            partitions = 1
        elif grows:
            partitions = known + 1
            wanted = CreatePartitionsTopic(name=name, count=partitions)
            request = CreatePartitionsRequest(topics=[wanted], timeout_ms=ORDER_MS)
            code = self._carry_out(name, request, 1, lambda answer: int(answer.results[0].error_code))
        else:
            partitions = 0
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=ORDER_MS)
            code = self._carry_out(name, request, 6, lambda answer: int(answer.responses[0].error_code))
        if code is not ErrorCode.NONE:
            self.history.unsure.add(name)
        self.history.topics[name] = partitions
        self.cluster.note(f"{name} shall have {partitions} partitions: {code.name}")
