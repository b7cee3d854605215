"""AlterReplicaLogDirs (key 34, versions 0-2): move replicas between log directories of this broker.

The answer says whether each move was taken on; DescribeLogDirs tells how far it is. A partition that is not here yet
answers REPLICA_NOT_AVAILABLE, and is made in the directory when it comes.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible.
"""

from __future__ import annotations

from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.registry import Call, api
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


@api(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(0, 2))
def handle(call: Call[AlterReplicaLogDirsRequest]) -> AlterReplicaLogDirsResponse:
    broker = call.broker
    wanted = {
        TopicPartition(topic.name, index): directory.path
        for directory in call.request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    if broker.authorizer.authorize(call.connection, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        results = broker.replica_manager.log_dir_moves.alter(wanted)
    else:
        results = dict.fromkeys(wanted, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for tp, code in results.items():
        topics.setdefault(tp.topic, []).append(
            AlterReplicaLogDirPartitionResult(partition_index=tp.partition, error_code=code)
        )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions) for name, partitions in topics.items()
        ]
    )
