"""Client side of incremental fetch sessions (KIP-227): what a follower remembers of its session with a leader."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping

from broker.replication.results import FetchPartitionData
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from network.protocol.uuids import ZERO_UUID

logger = logging.getLogger(__name__)

INITIAL_EPOCH = 0
_MAX_EPOCH = 2**31 - 1
_FIRST_VERSION_WITH_TOPIC_IDS = 13
_LAST_VERSION_WITH_NAMES = 12


class FetchSessionClient:
    """Not thread-safe: one fetcher thread owns it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._session_id = 0
        self._epoch = INITIAL_EPOCH
        self._partitions: dict[TopicPartition, FetchPartitionData] = {}
        self._of_id: Counter[bytes] = Counter()
        self.names: dict[bytes, str] = {}
        """Topic names by id, for the answer."""

    @property
    def partitions(self) -> Mapping[TopicPartition, FetchPartitionData]:
        """Everything that is in the session, or in the full request."""
        return self._partitions

    def build(
        self, wanted: Mapping[TopicPartition, FetchPartitionData], changed: Collection[TopicPartition], version: int
    ) -> tuple[FetchRequest, int]:
        """The partitions and session fields of the next request, and the version to send it in.

        `changed` are all partitions in which `wanted` differs from the call before. Without a topic id for every
        partition the version falls to the last one that uses names.
        """
        to_send: Mapping[TopicPartition, FetchPartitionData]
        forgotten: dict[TopicPartition, bytes] = {}
        if self._epoch == INITIAL_EPOCH:
            to_send = wanted
            self._partitions, self._of_id, self.names = {}, Counter(), {}
            for tp, item in wanted.items():
                self._put(tp, item)
        else:
            to_send = self._put_changed(wanted, changed, forgotten)
        if self._of_id[ZERO_UUID] and version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            version = _LAST_VERSION_WITH_NAMES
        request = FetchRequest(
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=_topics(to_send),
            forgotten_topics_data=_forgotten(forgotten),
        )
        return request, version

    def _put_changed(
        self,
        wanted: Mapping[TopicPartition, FetchPartitionData],
        changed: Collection[TopicPartition],
        forgotten: dict[TopicPartition, bytes],
    ) -> dict[TopicPartition, FetchPartitionData]:
        """Follow the changes; returns what has to be sent, and adds to `forgotten`."""
        to_send: dict[TopicPartition, FetchPartitionData] = {}
        for tp in changed:
            item, known = wanted.get(tp), self._partitions.get(tp)
            if item == known:
                continue
            if known is not None:
                self._drop(tp, known)
            if item is not None:
                self._put(tp, item)
                to_send[tp] = item
            if known is not None and (item is None or known.topic_id not in (ZERO_UUID, item.topic_id)):
                forgotten[tp] = known.topic_id
        return to_send

    def _put(self, tp: TopicPartition, item: FetchPartitionData) -> None:
        self._partitions[tp] = item
        self._of_id[item.topic_id] += 1
        self.names[item.topic_id] = tp.topic

    def _drop(self, tp: TopicPartition, item: FetchPartitionData) -> None:
        del self._partitions[tp]
        self._of_id[item.topic_id] -= 1
        if not self._of_id[item.topic_id]:
            del self._of_id[item.topic_id], self.names[item.topic_id]

    def handle(self, response: FetchResponse, answers: Mapping[TopicPartition, PartitionData], unknown: bool) -> bool:
        """Follow the session from an answer; `False` if its partitions must not be used.

        `unknown` says that the answer names a topic id which is not in the session.
        """
        error = ErrorCode.of(response.error_code)
        if error is not ErrorCode.NONE:
            logger.info("%s: fetch session %d ended with %s", self._name, self._session_id, error.name)
            self._restart(0 if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self._session_id)
            return False
        if self._epoch == INITIAL_EPOCH:
            if not answers and response.throttle_time_ms > 0:
                self._restart(0)
                return False
            if unknown or answers.keys() != self._partitions.keys():
                logger.warning("%s: the answer to a full fetch has other partitions than asked for", self._name)
                self._restart(0)
                return False
            self._session_id = response.session_id
            self._epoch = INITIAL_EPOCH if response.session_id == 0 else 1
            return True
        if unknown or not answers.keys() <= self._partitions.keys():
            logger.warning("%s: the answer has partitions that are not in the session", self._name)
            self._restart(self._session_id)
            return False
        if response.session_id == 0:
            self._restart(0)
        else:
            self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1
        return True

    def on_failure(self) -> None:
        """The request got no answer: close the session with the next one, and ask for a new one."""
        self._restart(self._session_id)

    def _restart(self, session_id: int) -> None:
        self._session_id = session_id
        self._epoch = INITIAL_EPOCH


def _topics(partitions: Mapping[TopicPartition, FetchPartitionData]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for tp, item in partitions.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = FetchTopic(topic=tp.topic, topic_id=item.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=tp.partition,
                current_leader_epoch=item.current_leader_epoch,
                fetch_offset=item.fetch_offset,
                last_fetched_epoch=item.last_fetched_epoch,
                log_start_offset=item.log_start_offset,
                partition_max_bytes=item.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Mapping[TopicPartition, bytes]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for tp, topic_id in partitions.items():
        key = (tp.topic, topic_id)
        if key not in topics:
            topics[key] = ForgottenTopic(topic=tp.topic, topic_id=topic_id)
        topics[key].partitions.append(tp.partition)
    return list(topics.values())
