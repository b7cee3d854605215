"""WriteTxnMarkers (key 27, versions 0-1): a transaction coordinator ends transactions on partitions led here.

Every marker becomes one control batch a partition, appended with acks=all. Markers in `__consumer_offsets` also decide
the offsets that were committed in the transaction. Needs ALTER or CLUSTER_ACTION on the cluster: an operator ends a
hanging transaction with the same request.

Versions: 1 flexible.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from broker.coordinator.coordinator_log import ALL_REPLICAS
from broker.coordinator.internal_topic_names import OFFSETS_TOPIC
from broker.replication.results import PartitionAppendResult
from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.registry import Call, api
from log.records.record import ControlType, EndTxnMarker, build_end_txn_marker
from log.records.validation import AppendOrigin
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Errors = dict[TopicPartition, ErrorCode]
Finish = Callable[[Errors], None]


def error_form(call: Call[WriteTxnMarkersRequest], code: ErrorCode, message: str | None) -> WriteTxnMarkersResponse:
    """The same code for every partition of every marker."""
    return WriteTxnMarkersResponse(
        markers=_results((marker, dict.fromkeys(_partitions(marker), code)) for marker in call.request.markers)
    )


@api(ApiKey.WRITE_TXN_MARKERS, versions=(0, 1), error_form=error_form)
def handle(call: Call[WriteTxnMarkersRequest]) -> WriteTxnMarkersResponse | None:
    """Append the markers; answered when all are replicated or have failed."""
    broker, markers = call.broker, call.request.markers
    allowed = broker.authorizer.authorize
    if not any(
        allowed(call.connection, operation, ResourceType.CLUSTER, CLUSTER_NAME, explicit=explicit)
        for operation, explicit in ((Operation.ALTER, False), (Operation.CLUSTER_ACTION, True))
    ):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    call.exempt()
    if not markers:
        return WriteTxnMarkersResponse()
    results: list[Errors] = [{}] * len(markers)
    left = [len(markers)]
    lock = threading.Lock()

    def finish(index: int, errors: Errors) -> None:
        results[index] = errors
        with lock:
            left[0] -= 1
            complete = left[0] == 0
        if complete:
            call.respond(WriteTxnMarkersResponse(markers=_results(zip(markers, results, strict=True))))

    for index, marker in enumerate(markers):
        _append(call, marker, lambda errors, index=index: finish(index, errors))  # type: ignore[misc]
    return None


def _append(call: Call[WriteTxnMarkersRequest], marker: WritableTxnMarker, finish: Finish) -> None:
    broker = call.broker
    kind = ControlType.COMMIT if marker.transaction_result else ControlType.ABORT
    content = EndTxnMarker(kind, marker.coordinator_epoch)
    now = broker.clock.wall_ms()
    errors: Errors = {}
    entries: dict[TopicPartition, bytearray] = {}
    for tp in _partitions(marker):
        if broker.replica_manager.partitions.get_log(tp) is None:
            errors[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            entries[tp] = build_end_txn_marker(marker.producer_id, marker.producer_epoch, content, now)
    if not entries:
        finish(errors)
        return

    def appended(appends: Mapping[TopicPartition, PartitionAppendResult]) -> None:
        for tp, result in appends.items():
            errors[tp] = result.error
        decided = [tp.partition for tp in entries if tp.topic == OFFSETS_TOPIC and errors[tp] is ErrorCode.NONE]
        if decided:
            broker.group_coordinator.on_transaction_completed(marker.producer_id, decided, marker.transaction_result)
        finish(errors)

    broker.replica_manager.append_records(
        broker.config.get_int("request.timeout.ms"),
        ALL_REPLICAS,
        entries,
        AppendOrigin.COORDINATOR,
        appended,
        internal_topics_allowed=True,
    )


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]


def _results(outcomes: Iterable[tuple[WritableTxnMarker, Errors]]) -> list[WritableTxnMarkerResult]:
    """One answer for each producer and in it each partition once, whatever the request repeats: coordinators look
    outcomes up by producer."""
    merged: dict[int, Errors] = {}
    for marker, errors in outcomes:
        merged.setdefault(marker.producer_id, {}).update(errors)
    return [_result(producer_id, errors) for producer_id, errors in merged.items()]


def _result(producer_id: int, errors: Errors) -> WritableTxnMarkerResult:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for tp, error in errors.items():
        topics.setdefault(tp.topic, []).append(
            WritableTxnMarkerPartitionResult(partition_index=tp.partition, error_code=error)
        )
    return WritableTxnMarkerResult(
        producer_id=producer_id,
        topics=[WritableTxnMarkerTopicResult(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
