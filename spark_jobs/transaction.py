"""A transaction of one transactional id, as its producer drives it (KIP-98).

Whoever begins under the id ends what its predecessors left: the coordinator aborts an open transaction, finishes one
that was being committed, and refuses the predecessors from then on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from network.client.cluster_client import GROUP_COORDINATOR, TRANSACTION_COORDINATOR, ClusterClient
from network.protocol.errors import ErrorCode
from network.protocol.message import Request
from network.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from network.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from network.protocol.messages.end_txn import EndTxnRequest
from network.protocol.messages.init_producer_id import InitProducerIdRequest
from network.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from spark_jobs.options import Partition
from timer.clock import Clock

logger = logging.getLogger(__name__)

_BACKOFF_MS = 20
# The last versions in which the client enlists partitions and offsets itself, on brokers of every age.
_ENLIST_VERSION, _END_VERSION, _OFFSETS_VERSION = 3, 4, 4
_FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
# Partitions that are enlisted with another that fails are told so, and are asked for again with it.
_AGAIN = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED})
_CURES = {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "allow the principal WRITE on the transactional id",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "allow the principal READ on the group of that name",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "allow the principal READ and WRITE on the topic",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "kafka.transaction.timeout.ms is beyond transaction.max.timeout.ms of the brokers"
    ),
}


class TransactionError(Exception):
    """The coordinator refused a step for good, or for as long as kafka.max.block.ms."""


class TransactionFencedError(TransactionError):
    """Another producer has begun under the transactional id, or the transaction took too long."""


class Transaction:
    """``begin``, ``enlist`` partitions before anything is sent to them, ``commit_offset``, ``end``. Not thread-safe."""

    def __init__(self, client: ClusterClient, clock: Clock, transactional_id: str, max_block_ms: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id, self.producer_epoch = -1, -1
        self._client = client
        self._clock = clock
        self._max_block_ms = max_block_ms
        self._enlisted: set[Partition] = set()
        self._pause = threading.Condition()

    def resume(self, producer_id: int, producer_epoch: int) -> None:
        """Take over what another process has begun, to end it."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch

    def begin(self, timeout_ms: int) -> None:
        """A new producer epoch under the id. The coordinator aborts the transaction when ``timeout_ms`` are over."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms, producer_id=-1, producer_epoch=-1
        )
        answer = self._ask(request, lambda found: {found.error_code})
        self.resume(answer.producer_id, answer.producer_epoch)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it, so that there is nothing to end."""
        return not self._enlisted

    def enlist(self, partitions: Iterable[Partition]) -> None:
        """Add partitions, before the first batch is sent to them."""
        new = sorted(set(partitions) - self._enlisted)
        if not new:
            return
        topics: dict[str, list[int]] = {}
        for topic, partition in new:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=n, partitions=p) for n, p in topics.items()],
        )
        self._ask(
            request,
            lambda found: {
                each.partition_error_code
                for topic in found.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            },
            _ENLIST_VERSION,
        )
        self._enlisted.update(new)

    def commit_offset(self, group: str, partition: Partition, offset: int, metadata: str) -> None:
        """An offset of a consumer group that is committed with the transaction, or not at all."""
        ids: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "group_id": group,
        }
        self._ask(AddOffsetsToTxnRequest(**ids), lambda found: {found.error_code})
        entry = TxnOffsetCommitRequestPartition(
            partition_index=partition[1], committed_offset=offset, committed_metadata=metadata
        )
        topics = [TxnOffsetCommitRequestTopic(name=partition[0], partitions=[entry])]
        self._ask(
            TxnOffsetCommitRequest(**ids, generation_id=-1, topics=topics),
            lambda found: {each.error_code for topic in found.topics for each in topic.partitions},
            _OFFSETS_VERSION,
            (group, GROUP_COORDINATOR),
        )

    def end(self, *, committed: bool) -> None:
        """Commit or abort. A commit that was answered once is answered again, so it may be repeated."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )
        self._ask(request, lambda found: {found.error_code}, _END_VERSION)

    def _ask(
        self,
        request: Request,
        codes: Callable[[Any], set[int]],
        max_version: int | None = None,
        coordinator: tuple[str, int] | None = None,
    ) -> Any:
        """The answer without an error; what passes is asked again for max.block.ms."""
        key, kind = coordinator or (self.transactional_id, TRANSACTION_COORDINATOR)
        deadline = self._clock.monotonic_ms() + self._max_block_ms
        while True:
            left = max(1, deadline - self._clock.monotonic_ms())
            answer = self._client.call_coordinator(key, kind, request, left, max_version=max_version)
            wrong = {ErrorCode.of(code) for code in codes(answer)} - {ErrorCode.NONE}
            if not wrong:
                return answer
            if wrong & _FENCED:
                raise TransactionFencedError(
                    f"{self.transactional_id}: {_names(wrong)}; another attempt has taken over, or the transaction was "
                    "open for longer than kafka.transaction.timeout.ms: make that longer than a batch takes"
                )
            lasting = {code for code in wrong - _AGAIN if not code.retriable}
            if lasting or self._clock.monotonic_ms() >= deadline:
                cure = "".join(f"; {_CURES[code]}" for code in sorted(lasting) if code in _CURES)
                raise TransactionError(f"{self.transactional_id}: {type(request).__name__}: {_names(wrong)}{cure}")
            if ErrorCode.NOT_COORDINATOR in wrong:
                self._client.coordinator(key, kind, refresh=True)
            with self._pause:
                self._clock.wait(self._pause, _BACKOFF_MS)


def _names(codes: set[ErrorCode]) -> str:
    return ", ".join(sorted(code.name for code in codes))
