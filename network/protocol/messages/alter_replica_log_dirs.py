"""AlterReplicaLogDirs (key 34, versions 0 to 2): move replicas between log directories of one broker."""

from __future__ import annotations

from network.protocol.fields import array, int16, int32, string
from network.protocol.message import Request, Response, Struct


class AlterReplicaLogDirTopic(Struct):
    name: str = string()
    partitions: list[int] = array(int32)


class AlterReplicaLogDir(Struct):
    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


class AlterReplicaLogDirsRequest(Request, key=34, versions=(0, 2), flexible=2):
    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


class AlterReplicaLogDirsResponse(Response, key=34, versions=(0, 2), flexible=2):
    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
