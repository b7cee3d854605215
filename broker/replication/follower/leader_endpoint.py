"""The leader as a follower sees it: fetch, list offsets, ask for the ends of epochs; over one blocking connection."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from broker.cluster.metadata_cache import Node
from broker.config.versions import MetadataVersion
from broker.replication.follower.fetch_session_client import FetchSessionClient
from broker.replication.results import EpochEndOffset, FetchPartitionData
from log.topic_partition import TopicPartition
from network.client.connection import Connection, CorrelationIds, SocketWrapper
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.fetch import PartitionData
from network.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from network.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from timer.clock import Clock


class LeaderEndpoint(Protocol):
    """All calls block, and raise `OSError` when no answer comes and `ApiError` when the whole request is refused."""

    def fetch(
        self, wanted: Mapping[TopicPartition, FetchPartitionData], changed: Collection[TopicPartition]
    ) -> dict[TopicPartition, PartitionData]:
        """`changed` are those that are asked for otherwise, or not any more, than in the call before."""
        ...

    def offset(self, tp: TopicPartition, timestamp: int, current_leader_epoch: int) -> int:
        """The leader's log end (-1) or log start (-2); raises the partition's error."""
        ...

    def epoch_end_offsets(
        self, asked: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, EpochEndOffset | ErrorCode]:
        """`asked` is (current leader epoch, epoch whose end is wanted)."""
        ...

    def close(self) -> None:
        """Wakes a blocked call, which then fails."""
        ...


class FetchSettings:
    """Limits of a follower's fetch, with the names of their configuration keys."""

    __slots__ = ("max_bytes", "max_wait_ms", "min_bytes", "partition_max_bytes")

    def __init__(self, max_wait_ms: int, min_bytes: int, max_bytes: int, partition_max_bytes: int) -> None:
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.partition_max_bytes = partition_max_bytes


class RemoteLeader:
    """Connects when it is first needed and again after every failure."""

    def __init__(
        self,
        node: Node,
        broker_id: int,
        fetcher_index: int,
        version: MetadataVersion,
        settings: FetchSettings,
        clock: Clock,
        broker_epoch: Any,
        connect_timeout_ms: int,
        request_timeout_ms: int,
        receive_buffer_bytes: int,
        wrap: SocketWrapper | None = None,
    ) -> None:
        """`wrap` adds TLS or SASL to each connection."""
        self.node = node
        self._broker_id = broker_id
        self._client_id = f"broker-{broker_id}-fetcher-{fetcher_index}"
        self._version = version
        self._settings = settings
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._timeouts = (connect_timeout_ms, request_timeout_ms)
        self._receive_buffer_bytes = receive_buffer_bytes
        self._wrap = wrap
        self._ids = CorrelationIds()
        self._connection: Connection | None = None
        self._closed = False
        self._session = FetchSessionClient(f"{self._client_id} of leader {node.id}")

    def fetch(
        self, wanted: Mapping[TopicPartition, FetchPartitionData], changed: Collection[TopicPartition]
    ) -> dict[TopicPartition, PartitionData]:
        settings, session = self._settings, self._session
        request, version = session.build(wanted, changed, self._version.fetch_request_version)
        request.max_wait_ms = settings.max_wait_ms
        request.min_bytes = settings.min_bytes
        request.max_bytes = settings.max_bytes
        if version >= 15:
            request.replica_state.replica_id = self._broker_id
            request.replica_state.replica_epoch = self._broker_epoch()
        else:
            request.replica_id = self._broker_id
        try:
            response = self._call(request, version)
        except BaseException:
            session.on_failure()
            raise
        names = session.names
        answers: dict[TopicPartition, PartitionData] = {}
        unknown = False
        for topic in response.responses:
            name = names.get(topic.topic_id) if version >= 13 else topic.topic
            if name is None:
                unknown = True
                continue
            for partition in topic.partitions:
                answers[TopicPartition(name, partition.partition_index)] = partition
        if not session.handle(response, answers, unknown):
            if response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR:
                raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
            return {}
        return answers

    def offset(self, tp: TopicPartition, timestamp: int, current_leader_epoch: int) -> int:
        partition = ListOffsetsPartition(
            partition_index=tp.partition, current_leader_epoch=current_leader_epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._broker_id, topics=[ListOffsetsTopic(name=tp.topic, partitions=[partition])]
        )
        version = self._version.list_offsets_request_version
        answer = self._call(request, version).topics[0].partitions[0]
        if answer.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode.of(answer.error_code))
        return int(answer.offset if version >= 1 else answer.old_style_offsets[0])

    def epoch_end_offsets(
        self, asked: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, EpochEndOffset | ErrorCode]:
        topics: dict[str, OffsetForLeaderTopic] = {}
        for tp, (current_epoch, epoch) in asked.items():
            topic = topics.setdefault(tp.topic, OffsetForLeaderTopic(topic=tp.topic))
            topic.partitions.append(
                OffsetForLeaderPartition(partition=tp.partition, current_leader_epoch=current_epoch, leader_epoch=epoch)
            )
        request = OffsetForLeaderEpochRequest(replica_id=self._broker_id, topics=list(topics.values()))
        response = self._call(request, self._version.offset_for_leader_epoch_request_version)
        results: dict[TopicPartition, EpochEndOffset | ErrorCode] = {}
        for answered in response.topics:
            for partition in answered.partitions:
                tp = TopicPartition(answered.topic, partition.partition)
                if partition.error_code != ErrorCode.NONE:
                    results[tp] = ErrorCode.of(partition.error_code)
                else:
                    results[tp] = EpochEndOffset(partition.leader_epoch, partition.end_offset)
        return results

    def close(self) -> None:
        self._closed = True
        connection = self._connection
        if connection is not None:
            connection.close()

    def _call(self, request: Any, version: int) -> Any:
        connection = self._connection
        if connection is None or connection.closed:
            if self._closed:
                raise ConnectionError("the fetcher is stopping")
            connection = self._connection = Connection(
                self.node.host,
                self.node.port,
                self._client_id,
                self._clock,
                *self._timeouts,
                correlation_ids=self._ids,
                receive_buffer_bytes=self._receive_buffer_bytes,
                wrap=self._wrap,
            )
            if self._closed:
                connection.close()
        return connection.call(request, version)
