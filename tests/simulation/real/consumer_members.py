"""Members of a group of the consumer protocol (KIP-848) by script: each heartbeat says what the member has, and the
answer what it shall have; what is to go is given up some time later, with a last commit or without."""

from __future__ import annotations

from typing import Any

from network.protocol.errors import ErrorCode
from network.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.simulation.real.brokers import Cluster
from tests.simulation.real.client import GROUP
from tests.simulation.real.consumer_history import REBALANCE_MS, SESSION_MS, ConsumerHistory, Place
from tests.simulation.real.members import ELSEWHERE, TOPIC, JoinAgain, Offsets

NAME = "consumers"
OTHERS = ("queue", "passing-1")
"""What a member subscribes to now and then, besides."""
_JOIN, _LEAVE = 0, -1
_NOT_A_MEMBER = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_NOTHING: frozenset[Place] = frozenset()


def _by_topic(places: frozenset[Place]) -> list[TopicPartitions]:
    topics = sorted({topic for topic, _ in places})
    return [
        TopicPartitions(topic_id=topic, partitions=sorted(number for each, number in places if each == topic))
        for topic in topics
    ]


class ConsumerMember(Offsets):
    """Beats; tells all it is after every answer that did not come, as clients do."""

    def __init__(self, cluster: Cluster, name: str, history: ConsumerHistory) -> None:
        super().__init__(cluster, name, history, NAME)
        self.consumers = history
        self.member_id = ""
        self.epoch = _JOIN
        self.owned = self.to_give_up = _NOTHING
        self.topics = [TOPIC]
        self.is_heard = False
        """Whether the last heartbeat was answered: else the next says everything."""
        self.is_sure = False
        """Whether all were, the last by whoever is the coordinator."""

    def work(self) -> None:
        self.ids = {name: self.until(lambda each=name: self._id_of(each)) for name in (TOPIC, OTHERS[0])}
        while not self.is_over():
            self._forget_everything(self.member_id == "" or self.rng.random() < 0.5)
            try:
                while self.more():
                    self._step()
            except JoinAgain:
                pass

    def _id_of(self, topic: str) -> bytes | None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        (found,) = self.ask(self.any_broker(), request, 12).topics
        return None if found.error_code else bytes(found.topic_id)

    def _forget_everything(self, as_another: bool) -> None:
        self.consumers.ends(self.member_id)
        if as_another:
            self.member_id = f"{self.name}-{self.rng.getrandbits(64):016x}"
        self.epoch = _JOIN
        self.owned = self.to_give_up = _NOTHING
        self.is_heard = self.is_sure = False

    def _step(self) -> None:
        self._beat()
        if self.rng.random() < 0.08:
            self.pause(2 * SESSION_MS)  # and does not know that the others have gone on
            self._commit()
        if self.rng.random() < 0.5:
            self._commit()
        if self.rng.random() < 0.1:
            self.topics = [TOPIC, *(each for each in OTHERS if self.rng.random() < 0.4)]
            self.is_heard = False
        what = self.rng.random()
        if what < 0.04:
            self._leave()
        elif what < 0.07:
            self.cluster.note(f"{self.name} ends without a word, and begins anew")
            self._forget_everything(True)
        self.pause(self.rng.randint(50, 500))

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        """One that is answered. Raises JoinAgain."""
        given, sent = self.until(self._heartbeat)
        if given is None:
            return
        self.consumers.given(self.member_id, sent, given)
        self.cluster.note(f"{self.member_id} has {sorted(number for _, number in given)} in epoch {self.epoch}")
        new = given - self.owned - self.to_give_up
        self.to_give_up = (self.to_give_up | self.owned) - given
        self.owned = given
        for topic, partition in sorted(new):
            if topic == self.ids[TOPIC]:
                self.fetch(partition)

    def _heartbeat(self) -> tuple[frozenset[Place] | None, int] | None:
        was_sure = self.is_sure and not self.to_give_up
        gives_up = bool(self.to_give_up) and self.rng.random() < 0.6
        if gives_up:
            self.consumers.gives_up(self.member_id, self.to_give_up)
            self.to_give_up = _NOTHING
        is_full = not self.is_heard or self.rng.random() < 0.1
        request = ConsumerGroupHeartbeatRequest(
            group_id=NAME,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS if is_full else -1,
            subscribed_topic_names=self.topics if is_full else None,
            topic_partitions=_by_topic(self.owned | self.to_give_up) if is_full or gives_up else None,
        )
        self.is_heard = self.is_sure = False
        sent, newest, broker = self.consumers.now(), self.consumers.newest, self.coordinator(NAME, GROUP)
        answer = self.ask(broker, request, 1)
        code = ErrorCode.of(answer.error_code)
        is_coordinator = self.consumers.is_coordinator(broker, sent)
        if code in _NOT_A_MEMBER and was_sure and is_coordinator:
            self.consumers.refused(self.member_id, code)
        if not self._is_good(code):
            return None
        if self.consumers.now() - sent >= SESSION_MS * 1_000_000:
            return None  # what it gave may be somebody else's by now
        self.is_heard, self.is_sure = True, is_coordinator
        self.epoch = int(answer.member_epoch)
        topics = frozenset(self.ids[name] for name in self.topics if name in self.ids)
        self.consumers.answered(self.member_id, broker, sent, newest, self.epoch, topics)
        if answer.assignment is None:
            return None, sent
        return (
            frozenset(
                (bytes(topic.topic_id), number)
                for topic in answer.assignment.topic_partitions
                for number in topic.partitions
            ),
            sent,
        )

    def _is_good(self, code: ErrorCode) -> bool:
        """False for what may be another at the next time. Raises JoinAgain."""
        if code in _NOT_A_MEMBER:
            self.cluster.note(f"{self.member_id} is told {code.name}")
            raise JoinAgain(code.name)
        if code is not ErrorCode.NONE and code not in ELSEWHERE:
            self.history.broken(f"{self.member_id} is told {code.name} in epoch {self.epoch}")
        return code is ErrorCode.NONE

    def _leave(self) -> None:
        self.consumers.ends(self.member_id)
        request = ConsumerGroupHeartbeatRequest(group_id=NAME, member_id=self.member_id, member_epoch=_LEAVE)

        def attempt() -> bool | None:
            answer = self.ask(self.coordinator(NAME, GROUP), request, 1)
            return True if self._is_good(ErrorCode.of(answer.error_code)) else None

        self.until(attempt)
        self.cluster.note(f"{self.member_id} leaves")
        raise JoinAgain

    # -- commits -------------------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        """Of something that it has, what it is to give up included."""
        places = sorted(each for each in self.owned | self.to_give_up if each[0] == self.ids[TOPIC])
        if not places:
            return
        place = self.rng.choice(places)
        offset = self.consumers.commits_as(self.member_id, place)
        partition = OffsetCommitRequestPartition(partition_index=place[1], committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=NAME,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )

        def attempt() -> ErrorCode | None:
            answer: Any = self.ask(self.coordinator(NAME, GROUP), request, 9)
            code = ErrorCode.of(answer.topics[0].partitions[0].error_code)
            if code is ErrorCode.STALE_MEMBER_EPOCH:
                return code  # an answer was lost: the next heartbeat tells
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None  # the broker has just started, and has not heard of the topic
            return code if self._is_good(code) else None

        if self.until(attempt) is ErrorCode.NONE:
            self.consumers.committed(self.member_id, place[1], offset)
