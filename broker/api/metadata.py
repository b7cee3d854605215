"""Metadata (key 3, versions 0-12): brokers, topics, partitions and their leaders.

In version 0 an empty topic list means all topics; from version 1 a null list does, and an empty one means none.
Version 12 may ask by topic id. Missing topics are created if the broker and the request allow it, and are then
reported with LEADER_NOT_AVAILABLE until they have leaders. A topic that is asked for twice is answered once; names that
are not there come last, ids first.

Versions: 1 controller, racks and internal topics, null in place of an empty list for all; 2 cluster id; 3 throttle
time; 4 whether to create topics; 5 offline replicas (KIP-112); 6 LISTENER_NOT_FOUND for a leader without the listener
that is asked on, and a throttled client waits by itself (KIP-219); 7 leader epochs (KIP-320); 8 authorized operations
(KIP-430); 9 flexible; 10 topic ids in the answer (KIP-516); 11 those of the cluster no longer; 12 topics by id.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from broker.cluster.metadata_cache import MetadataSnapshot, PartitionMetadata, Partitions
from broker.coordinator.internal_topic_names import INTERNAL_TOPICS
from broker.requests.authorization import (
    CLUSTER_NAME,
    NOT_ASKED,
    Operation,
    ResourceType,
    authorized_operations,
)
from broker.requests.context import BrokerContext
from broker.requests.registry import Call, api
from broker.topics.topic_admin import free
from controller.topic_names import topic_name_fault
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from network.protocol.uuids import ZERO_UUID


def _error_form(call: Call[MetadataRequest], code: ErrorCode, message: str | None) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in call.request.topics or ()
    ]
    return MetadataResponse(topics=topics)


def creates_topics_of(broker: BrokerContext, request: MetadataRequest) -> bool:
    """Whether answering may create topics, and so may wait for ZooKeeper."""
    known = broker.metadata_cache.snapshot.topics
    return any(topic.name is not None and topic.name not in known for topic in request.topics or ())


@api(ApiKey.METADATA, versions=(0, 12), error_form=_error_form, needs_brokers=True)
def handle(call: Call[MetadataRequest]) -> MetadataResponse:
    request, broker, version = call.request, call.broker, call.version
    snapshot = broker.metadata_cache.snapshot
    if version < 12 and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in request.topics or ()):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    topics: list[MetadataResponseTopic] = []
    if request.topics is None or (version == 0 and not request.topics):
        names = [name for name in snapshot.topics if _may_describe(call, name, explicit=False)]
        topics.extend(_topic(call, snapshot, name) for name in names)
    elif version >= 12 and any(topic.topic_id != ZERO_UUID for topic in request.topics):
        # Entries without an id are overlooked then.
        ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != ZERO_UUID)
        unknown = [topic_id for topic_id in ids if topic_id not in snapshot.topic_names]
        known = [topic_id for topic_id in ids if topic_id in snapshot.topic_names]
        topics.extend(_topic_by_id(call, snapshot, topic_id) for topic_id in unknown + known)
    else:
        asked = dict.fromkeys(topic.name or "" for topic in request.topics)
        topics.extend(_topics_by_name(call, snapshot, asked))
    nodes = snapshot.nodes(call.connection.listener_name)
    cluster_operations = NOT_ASKED
    if request.include_cluster_authorized_operations and 8 <= version <= 10:
        cluster_operations = _cluster_operations(call)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in nodes
        ],
        cluster_id=broker.cluster_id,
        controller_id=-1 if broker.metadata_cache.controller_id is None else snapshot.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations,
    )


def _cluster_operations(call: Call[MetadataRequest]) -> int:
    authorizer = call.broker.authorizer
    if authorizer.authorize(call.connection, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return authorized_operations(authorizer, call.connection, ResourceType.CLUSTER, CLUSTER_NAME)
    return 0


def _may_describe(call: Call[MetadataRequest], name: str, *, explicit: bool = True) -> bool:
    authorizer = call.broker.authorizer
    return authorizer.allows_everything or authorizer.authorize(
        call.connection, Operation.DESCRIBE, ResourceType.TOPIC, name, explicit=explicit
    )


def _topic_by_id(call: Call[MetadataRequest], snapshot: MetadataSnapshot, topic_id: bytes) -> MetadataResponseTopic:
    name = snapshot.topic_names.get(topic_id)
    if name is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not _may_describe(call, name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
    return _topic(call, snapshot, name)


def _topics_by_name(
    call: Call[MetadataRequest], snapshot: MetadataSnapshot, names: Iterable[str]
) -> list[MetadataResponseTopic]:
    broker = call.broker
    may_create = broker.config.get_bool("auto.create.topics.enable") and (
        call.version < 4 or call.request.allow_auto_topic_creation
    )
    found: list[MetadataResponseTopic] = []
    failed: list[MetadataResponseTopic] = []
    missing: list[str] = []
    for name in names:
        if not _may_describe(call, name):
            failed.append(_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif name in snapshot.topics:
            found.append(_topic(call, snapshot, name))
        elif not may_create:
            valid = topic_name_fault(name) is None
            failed.append(
                _failed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION)
            )
        elif not _may_create(call, name):
            failed.append(_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            missing.append(name)
    if missing:
        charge = partial(call.charge_mutations, strict=False) if call.has_quotas else free
        results = broker.auto_topic_creation.create(missing, charge)
        failed.extend(_failed(name, results[name]) for name in missing)
    return found + failed


def _may_create(call: Call[MetadataRequest], name: str) -> bool:
    authorizer, connection = call.broker.authorizer, call.connection
    if authorizer.allows_everything:
        return True
    return authorizer.authorize(
        connection, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, explicit=False
    ) or authorizer.authorize(connection, Operation.CREATE, ResourceType.TOPIC, name)


def _failed(name: str, error: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)


def _topic(call: Call[MetadataRequest], snapshot: MetadataSnapshot, name: str) -> MetadataResponseTopic:
    operations = NOT_ASKED
    if call.version >= 8 and call.request.include_topic_authorized_operations:
        operations = authorized_operations(call.broker.authorizer, call.connection, ResourceType.TOPIC, name)
    return MetadataResponseTopic(
        name=name,
        topic_id=snapshot.topic_id(name),
        is_internal=name in INTERNAL_TOPICS,
        partitions=partition_answers(snapshot, snapshot.topics[name], call.connection.listener_name, call.version),
        topic_authorized_operations=operations,
    )


def partition_answers(
    snapshot: MetadataSnapshot, partitions: Partitions, listener: str, version: int
) -> list[MetadataResponsePartition]:
    """The partitions of a topic as a client on `listener` sees them."""
    alike: dict[PartitionMetadata, MetadataResponsePartition] = {}
    answers: list[MetadataResponsePartition] = []
    for index, known in partitions.items():
        like = alike.get(known)
        if like is None:
            like = alike[known] = _partition(snapshot, index, known, listener, version)
        answers.append(
            MetadataResponsePartition(
                error_code=like.error_code,
                partition_index=index,
                leader_id=like.leader_id,
                leader_epoch=like.leader_epoch,
                replica_nodes=like.replica_nodes,
                isr_nodes=like.isr_nodes,
                offline_replicas=like.offline_replicas,
            )
        )
    return answers


def _partition(
    snapshot: MetadataSnapshot, index: int, known: PartitionMetadata, listener: str, version: int
) -> MetadataResponsePartition:
    brokers = snapshot.brokers
    leader = brokers.get(known.leader)
    error = ErrorCode.NONE
    leader_id = known.leader
    if leader is None:
        error, leader_id = ErrorCode.LEADER_NOT_AVAILABLE, -1
    elif listener not in leader.endpoints:
        leader_id = -1
        error = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    replicas, isr = list(known.replicas), list(known.isr)
    if version == 0:
        alive = [replica for replica in replicas if replica in brokers]
        alive_isr = [replica for replica in isr if replica in brokers]
        if error is ErrorCode.NONE and (len(alive) < len(replicas) or len(alive_isr) < len(isr)):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
        replicas, isr = alive, alive_isr
    offline = list(known.offline_replicas)
    offline.extend(
        replica
        for replica in known.replicas
        if replica not in offline and (replica not in brokers or listener not in brokers[replica].endpoints)
    )
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=known.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )
