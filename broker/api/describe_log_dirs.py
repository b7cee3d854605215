"""DescribeLogDirs (key 35, versions 0-4): what each log directory of this broker holds.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible; 3 a top-level error: not to be authorized is no
longer an empty answer; 4 total and usable bytes of each directory (KIP-827).
"""

from __future__ import annotations

import os

from broker.replication.replica_manager import ReplicaManager
from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.registry import Call, api
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@api(ApiKey.DESCRIBE_LOG_DIRS, versions=(0, 4))
def handle(call: Call[DescribeLogDirsRequest]) -> DescribeLogDirsResponse:
    broker = call.broker
    if not broker.authorizer.authorize(call.connection, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    asked = call.request.topics
    wanted: set[TopicPartition] | None = None
    if asked is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in asked for index in topic.partitions}
    manager = broker.replica_manager
    live = {os.path.realpath(directory) for directory in manager.log_manager.live_log_dirs}
    by_directory: dict[str, list[PartitionLog]] = {}
    for log in manager.log_manager.all_logs():
        by_directory.setdefault(os.path.realpath(os.path.dirname(log.directory)), []).append(log)
    results = []
    for directory in broker.config.log_dirs:
        path = os.path.realpath(directory)
        if path not in live:
            results.append(
                DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=os.path.abspath(directory))
            )
            continue
        result = DescribeLogDirsResult(log_dir=os.path.abspath(directory))
        result.topics = _topics(manager, by_directory.get(path, []), wanted)
        try:
            space = os.statvfs(path)
            result.total_bytes = space.f_blocks * space.f_frsize
            result.usable_bytes = space.f_bavail * space.f_frsize
        except OSError:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            result.topics = []
        results.append(result)
    return DescribeLogDirsResponse(results=results)


def _topics(
    manager: ReplicaManager, logs: list[PartitionLog], wanted: set[TopicPartition] | None
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for log in logs:
        tp = log.topic_partition
        if wanted is None or tp in wanted:
            topics.setdefault(tp.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=tp.partition,
                    partition_size=log.size,
                    offset_lag=_lag(manager, log),
                    is_future_key=log.is_future,
                )
            )
    return [DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()]


def _lag(manager: ReplicaManager, log: PartitionLog) -> int:
    if not log.is_future:
        return max(log.high_watermark - log.log_end_offset, 0)
    current = manager.log_manager.get_log(log.topic_partition)
    return -1 if current is None else current.log_end_offset - log.log_end_offset
