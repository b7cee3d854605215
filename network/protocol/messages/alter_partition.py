"""AlterPartition (key 56, versions 0 to 3): a leader proposes in-sync replicas to the controller."""

from __future__ import annotations

from network.protocol.fields import array, int8, int16, int32, int64, string, uuid
from network.protocol.message import Request, Response, Struct


class BrokerState(Struct):
    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class PartitionDataRequest(Struct):
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, "0-2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32()


class TopicDataRequest(Struct):
    topic_name: str = string("0-1", ignorable=True)
    topic_id: bytes = uuid("2+", ignorable=True)
    partitions: list[PartitionDataRequest] = array(PartitionDataRequest)


class AlterPartitionRequest(Request, key=56, versions=(0, 3), flexible=0):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[TopicDataRequest] = array(TopicDataRequest)


class PartitionDataResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8("1+", ignorable=True)
    partition_epoch: int = int32()


class TopicDataResponse(Struct):
    topic_name: str = string("0-1", ignorable=True)
    topic_id: bytes = uuid("2+", ignorable=True)
    partitions: list[PartitionDataResponse] = array(PartitionDataResponse)


class AlterPartitionResponse(Response, key=56, versions=(0, 3), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[TopicDataResponse] = array(TopicDataResponse)
