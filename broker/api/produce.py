"""Produce (key 0, versions 0-11): append record batches.

acks 0 is never answered, and any failure of it closes the connection; acks 1 is answered after the local append;
acks -1 when the in-sync replicas have the records, or at the timeout. A partition that fails does not fail the others.
From version 3 a partition carries exactly one batch of format 2; older versions may carry older formats.
From version 10 NOT_LEADER_OR_FOLLOWER comes with the leader that this broker knows of.

Versions: 1 throttle time; 2 record format 1 and log append time; 3 record format 2, transactional id (KIP-98);
4 KAFKA_STORAGE_ERROR; 5 log start offset; 6 a throttled client waits by itself (KIP-219); 7 zstd (KIP-110); 8 record
errors and an error message (KIP-467); 9 flexible; 10 the current leader and its endpoint (KIP-951);
11 TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from broker.coordinator.batch_verification import Errors, Guards, verify_batches
from broker.replication.results import PartitionAppendResult
from broker.replication.waiting.delayed_produce import ProduceCallback
from broker.requests.authorization import Operation, ResourceType
from broker.requests.leader_hints import current_leader, endpoints
from broker.requests.registry import Call, api
from broker.transactions.verifier import producer_error
from log.records.batch import ATTRIBUTES_OFFSET, HEADER_SIZE, MAGIC_OFFSET
from log.records.validation import AppendOrigin
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

Results = dict[TopicPartition, PartitionAppendResult]

_ADMIN_CLIENT = "__admin_client"
_NONE = ErrorCode.NONE
_KNOWS_ABORTABLE_VERSION = 11

# Places in the header of a batch of format 2.
_LENGTH_AT, _ATTRIBUTES_AT = 8, ATTRIBUTES_OFFSET + 1
_TRANSACTIONAL_BIT = 0x10
_CODEC_MASK, _ZSTD = 0x07, 4
_INT = Struct(">i").unpack_from


def _error_form(call: Call[ProduceRequest], code: ErrorCode, message: str | None) -> ProduceResponse | None:
    request = call.request
    if request is None or request.acks == 0:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(
                        index=partition.index, error_code=code, base_offset=-1, error_message=message
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


@api(ApiKey.PRODUCE, versions=(0, 11), error_form=_error_form)
def handle(call: Call[ProduceRequest]) -> None:
    request, broker, version = call.request, call.broker, call.header.api_version
    known = broker.metadata_cache.snapshot.topics
    checks_topics = not broker.authorizer.allows_everything
    entries: dict[TopicPartition, Any] = {}
    failed: Results = {}
    transactional: list[TopicPartition] = []
    for topic in request.topic_data:
        name = topic.name
        partitions = known.get(name)
        denied = checks_topics and not broker.authorizer.authorize(
            call.connection, Operation.WRITE, ResourceType.TOPIC, name
        )
        for data in topic.partition_data:
            number, records = data.index, data.records or b""
            tp = TopicPartition(name, number)
            size = len(records)
            attributes = records[_ATTRIBUTES_AT] if size >= HEADER_SIZE and records[MAGIC_OFFSET] == 2 else None
            if attributes and attributes & _TRANSACTIONAL_BIT:
                transactional.append(tp)
            if denied:
                failed[tp] = PartitionAppendResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif partitions is None or number not in partitions:
                failed[tp] = PartitionAppendResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif version >= 3 and (fault := first_batch_fault(records, size, attributes, version)) is not None:
                failed[tp] = fault
            else:
                entries[tp] = records

    def respond(results: Results) -> None:
        _respond(call, request, {**failed, **results} if failed else results)

    if transactional:
        _check_transactional(call, request)
    if not entries:
        respond({})
    elif transactional:
        batches = {tp: entries[tp] for tp in transactional if tp in entries}
        _verify_and_append(call, entries, batches, failed, respond)
    else:
        _append(call, respond, entries)


def _verify_and_append(
    call: Call[ProduceRequest],
    entries: dict[TopicPartition, Any],
    transactional: dict[TopicPartition, Any],
    failed: Results,
    respond: ProduceCallback,
) -> None:
    """Append what needs no verification or passes it; what does not joins `failed` (KIP-890)."""
    broker, transactional_id = call.broker, call.request.transactional_id
    knows_abortable = call.header.api_version >= _KNOWS_ABORTABLE_VERSION
    assert transactional_id is not None

    def proceed(guards: Guards, errors: Errors) -> None:
        for tp, error in errors.items():
            shown = producer_error(error, knows_abortable=knows_abortable)
            text = None if shown is error else f"Unable to verify the partition has been added: {error.name}"
            failed[tp] = PartitionAppendResult(shown, error_message=text)
        _append(call, respond, {tp: records for tp, records in entries.items() if tp not in errors}, guards)

    verify_batches(
        broker.transaction_verifier.verify,
        broker.replica_manager.partitions.get_log,
        transactional_id,
        transactional,
        proceed,
    )


def _append(
    call: Call[ProduceRequest],
    respond: ProduceCallback,
    entries: dict[TopicPartition, Any],
    guards: Guards | None = None,
) -> None:
    request = call.request
    call.broker.replica_manager.append_records(
        request.timeout_ms,
        request.acks,
        entries,
        AppendOrigin.CLIENT,
        respond,
        call.header.client_id == _ADMIN_CLIENT,
        guards,
    )


def first_batch_fault(records: Any, size: int, attributes: int | None, version: int) -> PartitionAppendResult | None:
    """What version 3 and later refuse before the log is asked; as in Kafka the answer has a code without a text.

    That is anything but exactly one batch of the current format, and zstd before version 7. `attributes` are those of
    the first batch, None if it is no whole header of the current format.
    """
    if attributes is None:
        return PartitionAppendResult(ErrorCode.INVALID_RECORD)
    length = _INT(records, _LENGTH_AT)[0]
    if 0 <= length + 12 < size:
        return PartitionAppendResult(ErrorCode.INVALID_RECORD)
    if attributes & _CODEC_MASK == _ZSTD and version < 7:
        return PartitionAppendResult(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return None


def _check_transactional(call: Call[ProduceRequest], request: ProduceRequest) -> None:
    transactional_id = request.transactional_id
    if transactional_id is None or not call.broker.authorizer.authorize(
        call.connection, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _respond(call: Call[ProduceRequest], request: ProduceRequest, results: Results) -> None:
    if request.acks == 0:
        for result in results.values():
            call.raw.converted(result.conversion)
        if any(result.error is not _NONE for result in results.values()):
            call.close_connection(_answer_of(results))
        else:
            call.respond(None)
        return
    topics = []
    leaders: set[int] | None = None
    for topic in request.topic_data:
        name = topic.name
        partitions = []
        for data in topic.partition_data:
            number = data.index
            result = results[name, number]  # type: ignore[index]  # a plain tuple is an equal key, made faster
            answer = PartitionProduceResponse(
                index=number,
                base_offset=result.base_offset,
                log_append_time_ms=result.log_append_time_ms,
                log_start_offset=result.log_start_offset,
            )
            if result.conversion is not None:
                call.raw.converted(result.conversion)
            if result.error is not _NONE:
                version = call.header.api_version
                _set_error(answer, result, version)
                if result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= 10:
                    leader = current_leader(call, TopicPartition(name, number), LeaderIdAndEpoch)
                    leaders = leaders or set()
                    leaders.add(leader.leader_id)
                    answer.current_leader = leader
            partitions.append(answer)
        topics.append(TopicProduceResponse(name=name, partition_responses=partitions))
    # Of one topic, as nearly always, `partitions` are all that were asked for.
    if len(topics) != 1 or len(partitions) != len(results):
        topics = _once(topics)
    response = ProduceResponse(responses=topics)
    if leaders is not None:
        response.node_endpoints = endpoints(call, leaders, NodeEndpoint)
    call.respond(response)


def _answer_of(results: Results) -> ProduceResponse:
    """What acks=0 is not sent, with all that is counted of it."""
    answers = [PartitionProduceResponse(index=tp.partition, error_code=result.error) for tp, result in results.items()]
    return ProduceResponse(responses=[TopicProduceResponse(name="", partition_responses=answers)])


def _once(topics: list[TopicProduceResponse]) -> list[TopicProduceResponse]:
    """Each topic and each partition once, whatever the request repeats: of a partition's batches the last was taken."""
    merged: dict[str, dict[int, PartitionProduceResponse]] = {}
    for topic in topics:
        merged.setdefault(topic.name, {}).update((answer.index, answer) for answer in topic.partition_responses)
    return [
        TopicProduceResponse(name=name, partition_responses=list(answers.values())) for name, answers in merged.items()
    ]


def _set_error(answer: PartitionProduceResponse, result: PartitionAppendResult, version: int) -> None:
    answer.error_code = result.error
    answer.error_message = result.error_message
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=error.batch_index, batch_index_error_message=error.message)
        for error in result.record_errors
    ]
    if result.error is ErrorCode.KAFKA_STORAGE_ERROR and version < 4:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
