"""CreatePartitions (key 37, versions 0 to 3): add partitions to topics."""

from __future__ import annotations

from network.protocol.fields import array, boolean, int16, int32, string
from network.protocol.message import Request, Response, Struct


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array(int32)


class CreatePartitionsTopic(Struct):
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable="0+")


class CreatePartitionsRequest(Request, key=37, versions=(0, 3), flexible=2):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Struct):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class CreatePartitionsResponse(Response, key=37, versions=(0, 3), flexible=2):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
