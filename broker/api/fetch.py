"""Fetch (key 1, versions 0-17): read record batches, by consumers and by followers.

Answers at once when there are `min_bytes`, an error, a divergence or a preferred replica to report, else waits for up
to `max_wait_ms`. Sessions (version 7 and later) leave out what has not changed. Partitions are named by topic id from
version 13 on. Followers read to the log end and may only ask the leader; consumers read to the high watermark or, with
read_committed, to the last stable offset, and from version 11 on may ask any replica.

Versions: 1 throttle time; 2 record format 1; 3 max_bytes of the whole answer, in the order of the request (KIP-74);
4 record format 2, isolation level, last stable offset and aborted transactions; 5 log start offsets;
6 KAFKA_STORAGE_ERROR; 7 sessions (KIP-227); 8 a throttled client waits by itself (KIP-219); 9 current leader epoch
(KIP-320); 10 zstd (KIP-110); 11 rack and preferred read replica (KIP-392); 12 flexible, last fetched epoch, divergence
and current leader (KIP-595); 13 topic ids (KIP-516); 14 OFFSET_MOVED_TO_TIERED_STORAGE, which never occurs here;
15 replica state in place of the replica id (KIP-903); 16 the current leader's endpoint (KIP-951); 17 the replica's
directory id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from broker.fetching.fetch_contexts import Answer, FetchContext, FollowerContext
from broker.fetching.fetch_session import PartitionKey, Wanted, len_of
from broker.fetching.old_consumers import FIRST_VERSION_WITH_ZSTD, ToConvert, convert_answer, to_convert, withhold
from broker.replication.results import (
    ClientMetadata,
    FetchEntry,
    FetchParams,
    FetchPartitionData,
    LogReadResult,
)
from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.leader_hints import current_leader, endpoints
from broker.requests.registry import Call, api
from log.fetch_data import FetchIsolation
from log.records.down_conversion import Convert
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from network.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from broker.cluster.metadata_cache import MetadataSnapshot
    from broker.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

_NONE = ErrorCode.NONE
_NO_RECORDS = b""
# About what an answer has beside records.
_ANSWER_BYTES, _PARTITION_BYTES = 40, 50
_CONSUMER_METRICS = ("FetchConsumer", "Fetch")
_FOLLOWER_METRICS = ("FetchFollower", "Fetch")
_REFUSED_PAUSE_MS = 100
"""A consumer without its records would ask at once, again and again."""
_LEADER_HINT_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def _error_form(call: Call[FetchRequest], code: ErrorCode, message: str | None) -> FetchResponse:
    request = call.request
    if call.version >= 7:
        return FetchResponse(error_code=code, session_id=request.session_id)
    topics = []
    for topic in request.topics:
        partitions = [_error_answer(partition.partition, code) for partition in topic.partitions]
        topics.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions))
    return FetchResponse(responses=topics)


@api(ApiKey.FETCH, versions=(0, 17), error_form=_error_form)
def handle(call: Call[FetchRequest]) -> FetchResponse | None:
    request, broker, version = call.request, call.broker, call.header.api_version
    replica_id = request.replica_state.replica_id if version >= 15 else request.replica_id
    is_follower = replica_id >= 0
    call.raw.metric_names = _FOLLOWER_METRICS if is_follower else _CONSUMER_METRICS
    snapshot = broker.metadata_cache.snapshot
    may_read_all = _may_read_all(call, is_follower)
    exempt = is_follower and may_read_all
    context = broker.fetch_manager.context(
        version,
        request.session_id,
        request.session_epoch if version >= 7 else -1,
        exempt,
        _wanted(request, version, snapshot),
        _forgotten(request, version) if request.forgotten_topics_data else (),
        snapshot.topic_names.get,
        replica_id,
        request.replica_state.replica_epoch if is_follower and version >= 15 else -1,
    )
    if context.error is not _NONE:
        return FetchResponse(error_code=context.error)
    manager = broker.replica_manager
    standby = context if isinstance(context, FollowerContext) else None
    if standby is not None:
        standby.sweep(manager.partitions.slots, manager.metrics.fetch_requested)
    keys, entries, failed = _to_read(call, context, snapshot, may_read_all, is_follower)
    params = _params(call, replica_id)

    def respond(results: list[tuple[TopicPartition, LogReadResult]]) -> None:
        answers = failed.copy()
        if standby is not None:
            _read_woken(manager, standby, params, keys, entries, results)
        # Of a client with quotas everything counts, also what it will not be sent.
        leaves_out = exempt or not call.has_quotas
        is_old = version < FIRST_VERSION_WITH_ZSTD and not is_follower
        unconverted: list[ToConvert] = []
        for key, (tp, result), (_, wanted) in zip(keys, results, entries, strict=True):
            if not result.size and leaves_out and result.is_nothing and context.is_known(key, result):
                if standby is not None:
                    standby.let_rest(key, manager.partitions.slots.get(tp))
                continue
            answer = _answer(call, tp, result)
            answers.append((key, answer))
            if is_old:
                unconverted += _to_convert(call, answer, tp, wanted.fetch_offset)
        if unconverted:
            _convert(call, answers, unconverted, partial(_respond, call, context, answers, replica_id, exempt=exempt))
        else:
            _respond(call, context, answers, replica_id, exempt=exempt)

    if entries or (standby is not None and standby.has_resting):
        manager.fetch_messages(params, entries, respond, standby)
    else:
        respond([])
    return None


def _to_read(
    call: Call[FetchRequest], context: FetchContext, snapshot: MetadataSnapshot, may_read_all: bool, is_follower: bool
) -> tuple[list[PartitionKey], list[FetchEntry], list[Answer]]:
    """What can be read, as the fetch names it and as the log does, and the answers of what can't."""
    keys: list[PartitionKey] = []
    entries: list[FetchEntry] = []
    failed: list[Answer] = []
    readable: dict[str, bool] = {}
    for key, wanted in context.partitions():
        error = _NONE
        topic, _, number = key
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif not may_read_all and (is_follower or not _may_read(call, topic, readable)):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif snapshot.partition(topic, number) is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if error is not _NONE:
            failed.append((key, _error_answer(number, error)))
            continue
        assert topic is not None
        keys.append(key)
        entries.append((TopicPartition(topic, number), wanted))
    return keys, entries, failed


def _params(call: Call[FetchRequest], replica_id: int) -> FetchParams:
    request, version = call.request, call.header.api_version
    max_bytes = request.max_bytes if version >= 3 else 2**31 - 1
    client = None
    if replica_id >= 0:
        isolation = FetchIsolation.LOG_END
    else:
        max_bytes = min(max_bytes, call.broker.fetch_max_bytes)
        if call.has_quotas:
            max_bytes = min(max_bytes, call.most_bytes())
        isolation = FetchIsolation.TXN_COMMITTED if request.isolation_level == 1 else FetchIsolation.HIGH_WATERMARK
        if version >= 11:
            connection = call.connection
            client = ClientMetadata(
                request.rack_id,
                call.header.client_id or "",
                connection.client_host,
                connection.principal,
                connection.listener_name,
            )
    return FetchParams(
        version,
        replica_id,
        request.replica_state.replica_epoch if version >= 15 else -1,
        request.max_wait_ms,
        min(request.min_bytes, max_bytes),
        max_bytes,
        isolation,
        client,
    )


def _read_woken(
    manager: ReplicaManager,
    standby: FollowerContext,
    params: FetchParams,
    keys: list[PartitionKey],
    entries: list[FetchEntry],
    results: list[tuple[TopicPartition, LogReadResult]],
) -> None:
    """What has woken while the fetch waited comes last, with what the others left of the answer's bytes."""
    woken = standby.woken()
    if woken:
        size = sum(result.size for _, result in results)
        more = [entry for _, entry in woken]
        keys += [key for key, _ in woken]
        entries += more
        results += manager.read_from_log(params, more, update_followers=False, read_before=size)


def _wanted(request: FetchRequest, version: int, snapshot: MetadataSnapshot) -> list[Wanted]:
    wanted: list[Wanted] = []
    for topic in request.topics:
        if version >= 13:
            topic_id = topic.topic_id
            name = snapshot.topic_names.get(topic_id)
        else:
            topic_id, name = ZERO_UUID, topic.topic
        for partition in topic.partitions:
            wanted.append((
                PartitionKey(name, topic_id, partition.partition),
                FetchPartitionData(
                    topic_id, partition.fetch_offset, partition.log_start_offset, partition.partition_max_bytes,
                    partition.current_leader_epoch, partition.last_fetched_epoch,
                ),
            ))  # fmt: skip
    return wanted


def _forgotten(request: FetchRequest, version: int) -> list[PartitionKey]:
    return [
        PartitionKey(None if version >= 13 else topic.topic, topic.topic_id, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]


def _may_read_all(call: Call[FetchRequest], is_follower: bool) -> bool:
    authorizer = call.broker.authorizer
    if authorizer.allows_everything:
        return True
    return is_follower and authorizer.authorize(
        call.connection, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    )


def _may_read(call: Call[FetchRequest], topic: str, known: dict[str, bool]) -> bool:
    """`known`: what was decided for this request; a topic has many partitions."""
    allowed = known.get(topic)
    if allowed is None:
        allowed = call.broker.authorizer.authorize(call.connection, Operation.READ, ResourceType.TOPIC, topic)
        known[topic] = allowed
    return allowed


def _error_answer(partition: int, error: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=partition, error_code=error, high_watermark=-1, records=_NO_RECORDS)


def _answer(call: Call[FetchRequest], tp: TopicPartition, result: LogReadResult) -> PartitionData:
    version = call.header.api_version
    error = result.error
    if error is not _NONE:
        if error is ErrorCode.KAFKA_STORAGE_ERROR and version <= 5:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer = _error_answer(tp.partition, error)
        if version >= 16 and error in _LEADER_HINT_ERRORS:
            answer.current_leader = current_leader(call, tp, LeaderIdAndEpoch)
        return answer
    answer = PartitionData(
        partition_index=tp.partition,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        records=_NO_RECORDS if result.records is None else result.records,
    )
    if result.aborted_transactions is not None:
        answer.aborted_transactions = [
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in result.aborted_transactions
        ]
    if result.diverging_epoch is not None:
        answer.diverging_epoch = EpochEndOffset(
            epoch=result.diverging_epoch.epoch, end_offset=result.diverging_epoch.end_offset
        )
    if result.preferred_read_replica >= 0:
        answer.preferred_read_replica = result.preferred_read_replica
    return answer


def _to_convert(call: Call[FetchRequest], answer: PartitionData, tp: TopicPartition, offset: int) -> list[ToConvert]:
    manager = call.broker.replica_manager
    each = to_convert(answer, tp, call.version, offset, manager, lambda cure: _too_old(call, tp.topic, cure))
    return [] if each is None else [each]


def _convert(
    call: Call[FetchRequest], answers: list[Answer], unconverted: list[ToConvert], respond: Callable[..., None]
) -> None:
    """Respond, now or later, when these of the answers are converted; without their records if too many wait for that.

    A call whose client has gone meanwhile is ended without more work.
    """
    manager = call.broker.replica_manager

    def job(convert: Convert) -> None:
        for each in unconverted:
            if call.is_gone:
                _release_unsent(answers, ())
                call.close_connection()
                return
            call.raw.converted(convert_answer(each, convert, manager))
        respond()

    def failed(error: Exception) -> None:
        if not call.answered:
            _release_unsent(answers, ())
            call.close_connection()

    if not call.broker.run_conversion(job, failed):
        for each in unconverted:
            withhold(each)
        respond(pause_ms=_REFUSED_PAUSE_MS)


def _too_old(call: Call[FetchRequest], topic: str, cure: str) -> None:
    """A consumer that cannot read a topic sees an error, and often shows none; the log says why."""
    client, host = call.header.client_id, call.connection.client_host
    if call.broker.client_faults.is_new((host, client, topic), call.version):
        logger.warning(
            "a client is too old: %r at %s cannot read topic %s with Fetch version %d; update the client, or %s",
            client, host, topic, call.version, cure,
        )  # fmt: skip


def _respond(
    call: Call[FetchRequest],
    context: FetchContext,
    answers: list[Answer],
    replica_id: int,
    *,
    exempt: bool,
    pause_ms: int = 0,
) -> None:
    if call.has_quotas and _is_withheld(call, answers, exempt=exempt):
        _release_unsent(answers, ())
        call.respond(FetchResponse(session_id=context.throttled()))
        return
    error, session_id, sent = context.finish(answers)
    if len(sent) != len(answers):
        _release_unsent(answers, sent)
    by_id = call.header.api_version >= 13
    topics: list[FetchableTopicResponse] = []
    current: FetchableTopicResponse | None = None
    manager = call.broker.replica_manager
    metrics = manager.metrics
    leaders: set[int] | None = None
    for key, answer in sent:
        name = key.topic or ""
        if current is None or (current.topic_id != key.topic_id if by_id else current.topic != name):
            current = FetchableTopicResponse(topic=name, topic_id=key.topic_id, partitions=[])
            topics.append(current)
        current.partitions.append(answer)
        records = answer.records
        size = 0 if records is None else len_of(records)
        if size:
            if replica_id >= 0:
                manager.traffic.sent(TopicPartition(name, key.partition), replica_id, size)
            else:
                metrics.sent(name, size)
        if answer.error_code and answer.current_leader.leader_id >= 0:
            leaders = leaders or set()
            leaders.add(answer.current_leader.leader_id)
    response = FetchResponse(error_code=error, session_id=session_id, responses=topics)
    if leaders:
        response.node_endpoints = endpoints(call, leaders, NodeEndpoint)
    if pause_ms:
        response.throttle_time_ms = pause_ms
        call.pause(pause_ms)
    call.respond(response)


def _is_withheld(call: Call[FetchRequest], answers: list[Answer], *, exempt: bool) -> bool:
    """Whether a consumer gets an empty answer because of its quota; what brokers fetch has others, and who only says
    to be one is a consumer."""
    if exempt:
        call.exempt()
        return False
    size = sum(_PARTITION_BYTES + len_of(answer.records or _NO_RECORDS) for _, answer in answers)
    return call.withholds(_ANSWER_BYTES + size)


def _release_unsent(answers: list[Answer], sent: object) -> None:
    kept = {id(answer) for _, answer in sent}  # type: ignore[attr-defined]
    for _, answer in answers:
        release = getattr(answer.records, "release", None)
        if release is not None and id(answer) not in kept and not isinstance(answer.records, memoryview):
            release()
