"""The table of APIs: key, name, versions, and which headers go with them.

The versions are those that `messages` can encode; what a broker advertises is decided by its handlers. Message classes
are imported when they are first asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from importlib import import_module
from typing import Final

from network.protocol.error_codes import ErrorCodes, error_codes_of
from network.protocol.fields import NEVER
from network.protocol.message import Request, Response


class ApiKey(IntEnum):
    """What a request asks for."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CLIENT_METRICS_RESOURCES = 74


@dataclass(frozen=True)
class ApiSpec:
    """A row of the table."""

    key: ApiKey
    name: str
    min_version: int
    max_version: int
    flexible_version: int

    @cached_property
    def request(self) -> type[Request]:
        cls: type[Request] = getattr(self._module, f"{self.name}Request")
        return cls

    @cached_property
    def response(self) -> type[Response]:
        cls: type[Response] = getattr(self._module, f"{self.name}Response")
        return cls

    @cached_property
    def error_codes(self) -> ErrorCodes:
        """Lists the error codes in a response."""
        return error_codes_of(self.name, self.response)

    @property
    def _module(self) -> object:
        return import_module(f"network.protocol.messages.{self.key.name.lower()}")

    def serves(self, version: int) -> bool:
        """Whether there is a layout for `version`."""
        return self.min_version <= version <= self.max_version

    def request_header_version(self, version: int) -> int:
        """2 with tagged fields, 1 without, 0 (no client id) only for ControlledShutdown version 0."""
        if version >= self.flexible_version:
            return 2
        return 0 if self.key is ApiKey.CONTROLLED_SHUTDOWN and version == 0 else 1

    def response_header_version(self, version: int) -> int:
        """1 with tagged fields, else 0; always 0 for ApiVersions, which a client must read before it knows versions."""
        return 1 if version >= self.flexible_version and self.key is not ApiKey.API_VERSIONS else 0


_TABLE: Final = (
    # key, name, first and last version, first flexible version
    (ApiKey.PRODUCE, "Produce", 0, 11, 9),
    (ApiKey.FETCH, "Fetch", 0, 17, 12),
    (ApiKey.LIST_OFFSETS, "ListOffsets", 0, 9, 6),
    (ApiKey.METADATA, "Metadata", 0, 12, 9),
    (ApiKey.LEADER_AND_ISR, "LeaderAndIsr", 0, 7, 4),
    (ApiKey.STOP_REPLICA, "StopReplica", 0, 4, 2),
    (ApiKey.UPDATE_METADATA, "UpdateMetadata", 0, 8, 6),
    (ApiKey.CONTROLLED_SHUTDOWN, "ControlledShutdown", 0, 3, 3),
    (ApiKey.OFFSET_COMMIT, "OffsetCommit", 0, 9, 8),
    (ApiKey.OFFSET_FETCH, "OffsetFetch", 0, 9, 6),
    (ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, 3),
    (ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6),
    (ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4),
    (ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4),
    (ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4),
    (ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 5, 5),
    (ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3),
    (ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, NEVER),
    (ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3),
    (ApiKey.CREATE_TOPICS, "CreateTopics", 0, 7, 5),
    (ApiKey.DELETE_TOPICS, "DeleteTopics", 0, 6, 4),
    (ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2),
    (ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5, 2),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 0, 4, 4),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3),
    (ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3),
    (ApiKey.END_TXN, "EndTxn", 0, 4, 3),
    (ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 0, 1, 1),
    (ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 4, 3),
    (ApiKey.DESCRIBE_ACLS, "DescribeAcls", 0, 3, 2),
    (ApiKey.CREATE_ACLS, "CreateAcls", 0, 3, 2),
    (ApiKey.DELETE_ACLS, "DeleteAcls", 0, 3, 2),
    (ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 0, 4, 4),
    (ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 0, 2, 2),
    (ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 0, 4, 2),
    (ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2),
    (ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2),
    (ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", 0, 3, 2),
    (ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", 0, 2, 2),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", 0, 2, 2),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", 0, 3, 2),
    (ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2),
    (ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, 2),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 0, 0),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0),
    (ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, NEVER),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1),
    (ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0),
    (ApiKey.ALTER_PARTITION, "AlterPartition", 0, 3, 0),
    (ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 1, 0),
    (ApiKey.ENVELOPE, "Envelope", 0, 0, 0),
    (ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 1, 0),
    (ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0),
    (ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0),
    (ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 1, 0),
    (ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", 0, 0, 0),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0),
    (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "GetTelemetrySubscriptions", 0, 0, 0),
    (ApiKey.PUSH_TELEMETRY, "PushTelemetry", 0, 0, 0),
    (ApiKey.LIST_CLIENT_METRICS_RESOURCES, "ListClientMetricsResources", 0, 0, 0),
)

API: Final[dict[int, ApiSpec]] = {int(row[0]): ApiSpec(*row) for row in _TABLE}
"""By API key."""
