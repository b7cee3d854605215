"""AddPartitionsToTxn (key 24, versions 0-5).

Versions 0 to 3 come from producers and add partitions to their transaction before the first record goes there.
Versions 4 and 5 come from brokers, for many transactions at once, mostly to verify only (KIP-890); they need
CLUSTER_ACTION and their topics are not authorised again.

Versions: 1 a throttled client waits by itself (KIP-219); 2 PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH;
3 flexible; 4 brokers' requests for many transactions, and verification only (KIP-890); 5 TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from broker.coordinator.internal_topic_names import INTERNAL_TOPICS
from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.registry import Call, api
from broker.transactions.coordinator import ExpectedProducer
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

Errors = dict[TopicPartition, ErrorCode]

_VERIFICATION_METRICS = ("AddPartitionsToTxnVerification",)


def error_form(
    call: Call[AddPartitionsToTxnRequest], code: ErrorCode, message: str | None
) -> AddPartitionsToTxnResponse:
    """The same code for every partition (versions below 4) or at the top."""
    if call.version < 4:
        topics = _entry_by_entry(call.request.v3_and_below_topics, code)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
    return AddPartitionsToTxnResponse(error_code=code)


@api(ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5), error_form=error_form)
def handle(call: Call[AddPartitionsToTxnRequest]) -> AddPartitionsToTxnResponse | None:
    """Add or verify partitions; answers once the change is replicated."""
    if call.version < 4:
        return _handle_client(call)
    broker = call.broker
    if not broker.authorizer.authorize(call.connection, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    transactions = call.request.transactions
    if not transactions:
        return AddPartitionsToTxnResponse()
    results: list[AddPartitionsToTxnResult] = []
    lock = threading.Lock()

    def finish(transactional_id: str, topic_results: list[AddPartitionsToTxnTopicResult]) -> None:
        with lock:
            results.append(AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=topic_results))
            complete = len(results) == len(transactions)
        if complete:
            call.respond(AddPartitionsToTxnResponse(results_by_transaction=results))

    if all(transaction.verify_only for transaction in transactions):
        call.raw.metric_names = _VERIFICATION_METRICS
    for transaction in transactions:
        wanted = _partitions(transaction.topics)
        producer = ExpectedProducer(transaction.producer_id, transaction.producer_epoch)
        name = transaction.transactional_id
        unknown = [tp for tp in wanted if not broker.metadata_cache.contains(tp.topic, tp.partition)]
        if unknown:
            faults = dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            finish(name, _topic_results(_refused(wanted, faults)))
        elif transaction.verify_only:
            finish(name, _topic_results(broker.txn_coordinator.verify_partitions(name, producer, wanted)))
        else:
            broker.txn_coordinator.add_partitions(
                name,
                producer,
                frozenset(wanted),
                partial(_added, finish, name, transaction.topics),
            )
    return None


def _added(
    finish: Callable[[str, list[AddPartitionsToTxnTopicResult]], None],
    name: str,
    topics: list[AddPartitionsToTxnTopic],
    error: ErrorCode,
) -> None:
    finish(name, _entry_by_entry(topics, error))


def _handle_client(call: Call[AddPartitionsToTxnRequest]) -> AddPartitionsToTxnResponse | None:
    request, broker = call.request, call.broker
    transactional_id = request.v3_and_below_transactional_id
    wanted = _partitions(request.v3_and_below_topics)
    allowed = broker.authorizer.authorize
    if not allowed(call.connection, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    faults: Errors = {}
    for tp in wanted:
        if tp.topic in INTERNAL_TOPICS or not allowed(call.connection, Operation.WRITE, ResourceType.TOPIC, tp.topic):
            faults[tp] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not broker.metadata_cache.contains(tp.topic, tp.partition):
            faults[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if faults:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(_refused(wanted, faults)))

    def respond(error: ErrorCode) -> None:
        if call.version < 2 and error is ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        topics = _entry_by_entry(request.v3_and_below_topics, error)
        call.respond(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics))

    producer = ExpectedProducer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    broker.txn_coordinator.add_partitions(transactional_id, producer, frozenset(wanted), respond)
    return None


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions]


def _refused(wanted: list[TopicPartition], faults: Errors) -> Errors:
    """Nothing is added when a partition is at fault; the others were not attempted."""
    return {tp: faults.get(tp, ErrorCode.OPERATION_NOT_ATTEMPTED) for tp in wanted}


def _entry_by_entry(topics: list[AddPartitionsToTxnTopic], error: ErrorCode) -> list[AddPartitionsToTxnTopicResult]:
    """One code for all of them, in the shape of the request, also where that names a partition twice."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _topic_results(errors: Errors) -> list[AddPartitionsToTxnTopicResult]:
    """Each topic and each partition once."""
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for tp, error in errors.items():
        by_topic.setdefault(tp.topic, []).append(
            AddPartitionsToTxnPartitionResult(partition_index=tp.partition, partition_error_code=error)
        )
    return [
        AddPartitionsToTxnTopicResult(name=name, results_by_partition=partitions)
        for name, partitions in by_topic.items()
    ]
