"""One request or two of every API, to be sent by callers with different permissions.

The requests name the topics `mine` and `theirs`, the group `g` and the transactional id `tx`. None of them changes what
the next one is answered: what they ask for is refused for another reason, only checked, or does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from broker.requests.authorization import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType
from network.protocol.api import API, ApiKey
from network.protocol.message import Request, Struct
from network.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    controlled_shutdown,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    expire_delegation_token,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leader_and_isr,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    stop_replica,
    sync_group,
    txn_offset_commit,
    update_features,
    update_metadata,
    write_txn_markers,
)
from network.protocol.messages.api_versions import ApiVersionsRequest
from tests.support import wire

MINE, THEIRS, GROUP, TXN = "mine", "theirs", "g", "tx"
TOPICS = (MINE, THEIRS)
RESOURCES = {
    ResourceType.TOPIC: MINE,
    ResourceType.GROUP: GROUP,
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: TXN,
}
PERMISSIONS = [(kind, operation) for kind in RESOURCES for operation in SUPPORTED_OPERATIONS[kind]]
"""Each may be the only one that a caller has."""

WAIT_MS = 10_000
OTHER_EPOCH = 0
"""An epoch that no broker has, so orders of a controller are refused as outdated."""


class Ask(NamedTuple):
    """A request; `versions` of None: the lowest and the highest."""

    api: ApiKey
    make: Callable[[int], Request]
    versions: tuple[int, ...] | None = None


ASKS: list[Ask] = []


def ask(api: ApiKey, *versions: int) -> Callable[[Callable[[int], Request]], Callable[[int], Request]]:
    """Put what is decorated into the table."""

    def put(make: Callable[[int], Request]) -> Callable[[int], Request]:
        ASKS.append(Ask(api, make, versions or None))
        return make

    return put


def simple(api: ApiKey, make: Callable[[], Request], *versions: int) -> None:
    """The same request in all versions."""
    ASKS.append(Ask(api, lambda version: make(), versions or None))


def versions_of(each: Ask, highest: int) -> list[int]:
    """Those that it is sent in, to a broker that serves up to `highest`."""
    lowest = API[each.api].min_version
    return sorted({version for version in each.versions or (lowest, highest) if lowest <= version <= highest})


# ------------------------------------------------------------------ produce, fetch, offsets


@ask(ApiKey.PRODUCE, 3, 11)
def _produce(version: int) -> Request:
    data = [produce.PartitionProduceData(index=7, records=wire.batch([b"x"]))]
    return produce.ProduceRequest(
        acks=1,
        timeout_ms=WAIT_MS,
        topic_data=[produce.TopicProduceData(name=name, partition_data=data) for name in TOPICS],
    )


@ask(ApiKey.PRODUCE, 11)
def _produce_transactional(version: int) -> Request:
    records = wire.batch([b"x"], transactional=True, producer_id=9, producer_epoch=0, base_sequence=0)
    data = [produce.PartitionProduceData(index=7, records=records)]
    return produce.ProduceRequest(
        transactional_id=TXN,
        acks=1,
        timeout_ms=WAIT_MS,
        topic_data=[produce.TopicProduceData(name=MINE, partition_data=data)],
    )


def _fetch(replica_id: int) -> Request:
    topics = [
        fetch.FetchTopic(topic=name, partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=1000)])
        for name in TOPICS
    ]
    return fetch.FetchRequest(replica_id=replica_id, max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=topics)


simple(ApiKey.FETCH, lambda: _fetch(-1), 4, 12)
simple(ApiKey.FETCH, lambda: _fetch(99), 12)
simple(
    ApiKey.LIST_OFFSETS,
    lambda: list_offsets.ListOffsetsRequest(
        replica_id=-1,
        topics=[
            list_offsets.ListOffsetsTopic(
                name=name, partitions=[list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
            for name in TOPICS
        ],
    ),
    1,
    9,
)
simple(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    lambda: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopic(
                topic=name, partitions=[offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)]
            )
            for name in TOPICS
        ]
    ),
)
simple(
    ApiKey.DELETE_RECORDS,
    lambda: delete_records.DeleteRecordsRequest(
        timeout_ms=WAIT_MS,
        topics=[
            delete_records.DeleteRecordsTopic(
                name=name, partitions=[delete_records.DeleteRecordsPartition(partition_index=0, offset=0)]
            )
            for name in TOPICS
        ],
    ),
)
simple(
    ApiKey.DESCRIBE_PRODUCERS,
    lambda: describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name=name, partition_indexes=[0]) for name in TOPICS]
    ),
)

# ------------------------------------------------------------------ metadata


def _metadata(version: int, names: list[str] | None, *, create: bool) -> Request:
    request = metadata.MetadataRequest(
        topics=None if names is None else [metadata.MetadataRequestTopic(name=name) for name in names]
    )
    if version >= 4:
        request.allow_auto_topic_creation = create
    if version >= 8:
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = version <= 10
    return request


@ask(ApiKey.METADATA, 1, 10, 12)
def _metadata_all(version: int) -> Request:
    return _metadata(version, None, create=False)


@ask(ApiKey.METADATA, 4, 12)
def _metadata_some(version: int) -> Request:
    return _metadata(version, [*TOPICS, "missing"], create=False)


@ask(ApiKey.METADATA, 12)
def _metadata_creating(version: int) -> Request:
    return _metadata(version, ["a/bad name"], create=True)


simple(
    ApiKey.DESCRIBE_CLUSTER,
    lambda: describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True),
)
simple(ApiKey.API_VERSIONS, lambda: ApiVersionsRequest(client_software_name="t", client_software_version="1"))
simple(ApiKey.SASL_HANDSHAKE, lambda: sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"))
simple(ApiKey.SASL_AUTHENTICATE, lambda: sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b""))


@ask(ApiKey.FIND_COORDINATOR, 3)
def _coordinator_of_group(version: int) -> Request:
    return find_coordinator.FindCoordinatorRequest(key=GROUP, key_type=0)


@ask(ApiKey.FIND_COORDINATOR, 6)
def _coordinators_of_transactions(version: int) -> Request:
    return find_coordinator.FindCoordinatorRequest(coordinator_keys=[TXN, "other"], key_type=1)


# ------------------------------------------------------------------ groups

simple(
    ApiKey.JOIN_GROUP,
    lambda: join_group.JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=1,  # outside of the allowed range
        rebalance_timeout_ms=1000,
        member_id="",
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="p", metadata=b"")],
    ),
)
simple(ApiKey.SYNC_GROUP, lambda: sync_group.SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m"), 0, 4)
simple(ApiKey.HEARTBEAT, lambda: heartbeat.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m"))


@ask(ApiKey.LEAVE_GROUP)
def _leave(version: int) -> Request:
    if version < 3:
        return leave_group.LeaveGroupRequest(group_id=GROUP, member_id="m")
    return leave_group.LeaveGroupRequest(group_id=GROUP, members=[leave_group.MemberIdentity(member_id="m")])


simple(ApiKey.DESCRIBE_GROUPS, lambda: describe_groups.DescribeGroupsRequest(groups=[GROUP, "other"]), 0)
simple(
    ApiKey.DESCRIBE_GROUPS,
    lambda: describe_groups.DescribeGroupsRequest(groups=[GROUP, "other"], include_authorized_operations=True),
    5,
)
simple(ApiKey.LIST_GROUPS, list_groups.ListGroupsRequest)
simple(ApiKey.DELETE_GROUPS, lambda: delete_groups.DeleteGroupsRequest(groups_names=["missing", "other"]))
simple(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    lambda: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=1),
    0,
)
simple(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    lambda: consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[GROUP]),
    0,
)


@ask(ApiKey.OFFSET_COMMIT, 2, 8)
def _commit(version: int) -> Request:
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
    topics = [offset_commit.OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in TOPICS]
    return offset_commit.OffsetCommitRequest(
        group_id=GROUP, generation_id_or_member_epoch=5, member_id="nobody", topics=topics
    )


@ask(ApiKey.OFFSET_FETCH, 2, 8)
def _fetch_offsets(version: int) -> Request:
    if version < 8:
        topics = [offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in TOPICS]
        return offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=topics)
    groups = [
        offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=topics)
        for group in (GROUP, "other")
        for topics in ([offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in TOPICS],)
    ]
    return offset_fetch.OffsetFetchRequest(groups=groups)


@ask(ApiKey.OFFSET_FETCH, 8)
def _fetch_all_offsets(version: int) -> Request:
    groups = [offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=None)]
    return offset_fetch.OffsetFetchRequest(groups=groups)


simple(
    ApiKey.OFFSET_DELETE,
    lambda: offset_delete.OffsetDeleteRequest(
        group_id="unknown",
        topics=[
            offset_delete.OffsetDeleteRequestTopic(
                name=name, partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=0)]
            )
            for name in TOPICS
        ],
    ),
)
simple(
    ApiKey.OFFSET_DELETE,
    lambda: offset_delete.OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            offset_delete.OffsetDeleteRequestTopic(
                name=name, partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=9)]
            )
            for name in TOPICS
        ],
    ),
)

# ------------------------------------------------------------------ transactions


@ask(ApiKey.INIT_PRODUCER_ID)
def _init_idempotent(version: int) -> Request:
    return init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)


@ask(ApiKey.INIT_PRODUCER_ID)
def _init_transactional(version: int) -> Request:
    return init_producer_id.InitProducerIdRequest(transactional_id=TXN, transaction_timeout_ms=2**31 - 1)  # too long


@ask(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 3, 4, 5)
def _add_partitions(version: int) -> Request:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in TOPICS]
    if version < 4:
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TXN,
            v3_and_below_producer_id=9,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics[:1] if version == 3 else topics,
        )
    transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id=TXN, producer_id=9, producer_epoch=0, verify_only=True, topics=topics
    )
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])


simple(
    ApiKey.ADD_OFFSETS_TO_TXN,
    lambda: add_offsets_to_txn.AddOffsetsToTxnRequest(
        transactional_id=TXN, producer_id=9, producer_epoch=0, group_id=GROUP
    ),
)
simple(
    ApiKey.END_TXN,
    lambda: end_txn.EndTxnRequest(transactional_id=TXN, producer_id=9, producer_epoch=0, committed=True),
)
simple(
    ApiKey.TXN_OFFSET_COMMIT,
    lambda: txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=TXN,
        group_id=GROUP,
        producer_id=9,
        producer_epoch=0,
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    txn_offset_commit.TxnOffsetCommitRequestPartition(
                        partition_index=99, committed_offset=0, committed_metadata=""
                    )
                ],
            )
            for name in TOPICS
        ],
    ),
)
simple(
    ApiKey.WRITE_TXN_MARKERS,
    lambda: write_txn_markers.WriteTxnMarkersRequest(
        markers=[
            write_txn_markers.WritableTxnMarker(
                producer_id=9,
                producer_epoch=0,
                transaction_result=False,
                topics=[write_txn_markers.WritableTxnMarkerTopic(name="missing", partition_indexes=[0])],
                coordinator_epoch=0,
            )
        ]
    ),
)
simple(
    ApiKey.DESCRIBE_TRANSACTIONS,
    lambda: describe_transactions.DescribeTransactionsRequest(transactional_ids=[TXN, "other"]),
)
simple(ApiKey.LIST_TRANSACTIONS, list_transactions.ListTransactionsRequest)

# ------------------------------------------------------------------ topics


@ask(ApiKey.CREATE_TOPICS, 1, 7)
def _create_topics(version: int) -> Request:
    topics = [
        create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in (*TOPICS, f"{MINE}-new")
    ]
    return create_topics.CreateTopicsRequest(topics=topics, timeout_ms=WAIT_MS, validate_only=True)


@ask(ApiKey.CREATE_PARTITIONS)
def _create_partitions(version: int) -> Request:
    topics = [create_partitions.CreatePartitionsTopic(name=name, count=2, assignments=None) for name in TOPICS]
    return create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=WAIT_MS, validate_only=True)


@ask(ApiKey.DELETE_TOPICS, 5, 6)
def _delete_topics(version: int) -> Request:
    names = ["missing", "prefix-missing"]
    if version < 6:
        return delete_topics.DeleteTopicsRequest(topic_names=names, timeout_ms=WAIT_MS)
    topics = [delete_topics.DeleteTopicState(name=name) for name in names]
    return delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=WAIT_MS)


# ------------------------------------------------------------------ configs


@ask(ApiKey.DESCRIBE_CONFIGS)
def _describe_configs(version: int) -> Request:
    wanted = [(2, MINE), (2, THEIRS), (4, "0"), (8, "0")]
    resources = [
        describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=["cleanup.policy", "root", "num.io.threads"]
        )
        for kind, name in wanted
    ]
    return describe_configs.DescribeConfigsRequest(resources=resources)


@ask(ApiKey.ALTER_CONFIGS)
def _alter_configs(version: int) -> Request:
    config = alter_configs.AlterableConfig(name="retention.ms", value="60000")
    resources = [
        alter_configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=[config]) for name in TOPICS
    ]
    thread = alter_configs.AlterableConfig(name="log.cleaner.threads", value="1")
    resources.append(alter_configs.AlterConfigsResource(resource_type=4, resource_name="0", configs=[thread]))
    return alter_configs.AlterConfigsRequest(resources=resources, validate_only=True)


@ask(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def _incrementally(version: int) -> Request:
    config = incremental_alter_configs.AlterableConfig(name="retention.ms", config_operation=0, value="60000")
    thread = incremental_alter_configs.AlterableConfig(name="log.cleaner.threads", config_operation=0, value="1")
    level = incremental_alter_configs.AlterableConfig(name="kafka.log.LogManager", config_operation=0, value="INFO")
    make = incremental_alter_configs.AlterConfigsResource
    resources = [make(resource_type=2, resource_name=name, configs=[config]) for name in TOPICS]
    resources.append(make(resource_type=4, resource_name="0", configs=[thread]))
    resources.append(make(resource_type=8, resource_name="0", configs=[level]))
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=resources, validate_only=True)


# ------------------------------------------------------------------ the cluster

simple(ApiKey.DESCRIBE_LOG_DIRS, lambda: describe_log_dirs.DescribeLogDirsRequest(topics=None))
simple(
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    lambda: alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=[
            alter_replica_log_dirs.AlterReplicaLogDir(
                path="/nowhere",
                topics=[alter_replica_log_dirs.AlterReplicaLogDirTopic(name=MINE, partitions=[0])],
            )
        ]
    ),
)
simple(
    ApiKey.ELECT_LEADERS,
    lambda: elect_leaders.ElectLeadersRequest(
        topic_partitions=[elect_leaders.TopicPartitions(topic=MINE, partitions=[0])], timeout_ms=WAIT_MS
    ),
)
simple(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    lambda: alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        timeout_ms=WAIT_MS,
        topics=[
            alter_partition_reassignments.ReassignableTopic(
                name=MINE,
                partitions=[alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=None)],
            )
        ],
    ),
)
simple(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    lambda: list_partition_reassignments.ListPartitionReassignmentsRequest(timeout_ms=WAIT_MS, topics=None),
)
simple(
    ApiKey.UPDATE_FEATURES,
    lambda: update_features.UpdateFeaturesRequest(
        timeout_ms=WAIT_MS,
        feature_updates=[update_features.FeatureUpdateKey(feature="unknown", max_version_level=1)],
    ),
)
simple(
    ApiKey.DESCRIBE_ACLS,
    lambda: describe_acls.DescribeAclsRequest(
        resource_type_filter=2,
        resource_name_filter="nothing",
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    ),
)
simple(
    ApiKey.CREATE_ACLS,
    lambda: create_acls.CreateAclsRequest(
        creations=[
            create_acls.AclCreation(
                resource_type=2, resource_name="", principal="User:x", host="*", operation=3, permission_type=3
            )
        ]
    ),
)
simple(
    ApiKey.DELETE_ACLS,
    lambda: delete_acls.DeleteAclsRequest(
        filters=[
            delete_acls.DeleteAclsFilter(
                resource_type_filter=2,
                resource_name_filter="nothing",
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        ]
    ),
)
simple(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    lambda: describe_client_quotas.DescribeClientQuotasRequest(components=[], strict=False),
)
simple(
    ApiKey.ALTER_CLIENT_QUOTAS,
    lambda: alter_client_quotas.AlterClientQuotasRequest(
        entries=[
            alter_client_quotas.EntryDataRequest(
                entity=[alter_client_quotas.EntityData(entity_type="user", entity_name="x")],
                ops=[alter_client_quotas.OpData(key="unknown", value=1.0, remove=False)],
            )
        ],
        validate_only=True,
    ),
)
simple(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    lambda: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
        users=[describe_user_scram_credentials.UserName(name="nobody")]
    ),
)
simple(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    lambda: alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        deletions=[alter_user_scram_credentials.ScramCredentialDeletion(name="", mechanism=1)]
    ),
)


@ask(ApiKey.CREATE_DELEGATION_TOKEN, 1)
def _create_token(version: int) -> Request:
    return create_delegation_token.CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)


simple(
    ApiKey.RENEW_DELEGATION_TOKEN,
    lambda: renew_delegation_token.RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1),
)
simple(
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    lambda: expire_delegation_token.ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1),
)
simple(ApiKey.DESCRIBE_DELEGATION_TOKEN, lambda: describe_delegation_token.DescribeDelegationTokenRequest(owners=None))

# ------------------------------------------------------------------ between brokers

simple(
    ApiKey.LEADER_AND_ISR,
    lambda: leader_and_isr.LeaderAndIsrRequest(
        controller_id=0, controller_epoch=0, broker_epoch=OTHER_EPOCH, type=0, topic_states=[], live_leaders=[]
    ),
    2,
    7,
)
simple(
    ApiKey.STOP_REPLICA,
    lambda: stop_replica.StopReplicaRequest(controller_id=0, controller_epoch=0, broker_epoch=OTHER_EPOCH),
    1,
    4,
)
simple(
    ApiKey.UPDATE_METADATA,
    lambda: update_metadata.UpdateMetadataRequest(
        controller_id=0, controller_epoch=0, broker_epoch=OTHER_EPOCH, live_brokers=[]
    ),
    5,
    8,
)
simple(
    ApiKey.CONTROLLED_SHUTDOWN,
    lambda: controlled_shutdown.ControlledShutdownRequest(broker_id=99, broker_epoch=OTHER_EPOCH),
    2,
    3,
)
simple(
    ApiKey.ALTER_PARTITION,
    lambda: alter_partition.AlterPartitionRequest(broker_id=99, broker_epoch=OTHER_EPOCH, topics=[]),
)
simple(
    ApiKey.ALLOCATE_PRODUCER_IDS,
    lambda: allocate_producer_ids.AllocateProducerIdsRequest(broker_id=99, broker_epoch=OTHER_EPOCH),
)

CLOSED = "the connection was closed"
_SHOWN = ("error_code", "authorized_operations")
_NAMES = ("name", "topic", "topic_name", "group_id", "transactional_id", "resource_name", "key", "topic_id")
_VOLATILE = {"topic_id"}


def gist(message: object) -> Any:
    """What an answer says of errors, permissions and names; lists in an order of their own."""
    if isinstance(message, Struct):
        shown = {}
        for field in message.FIELDS:
            value = getattr(message, field.name)
            if isinstance(value, list):
                items = [gist(item) for item in value if isinstance(item, Struct)]
                if items:
                    shown[field.name] = sorted(items, key=repr)
            elif isinstance(value, Struct):
                shown[field.name] = gist(value)
            elif field.name.endswith(_SHOWN) or (field.name in _NAMES and field.name not in _VOLATILE):
                shown[field.name] = value
        return shown
    return message


def callers() -> Iterator[tuple[str, Mapping[tuple[ResourceType, Operation], bool]]]:
    """A name for each set of permissions: none, each alone, all."""
    yield "nothing", {}
    for kind, operation in PERMISSIONS:
        yield f"{operation.name} {kind.name}", {(kind, operation): True}
    yield "everything", dict.fromkeys(PERMISSIONS, True)
