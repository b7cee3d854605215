"""ControlledShutdown (key 7, versions 0 to 3): a broker asks the controller to move its leaderships away."""

from __future__ import annotations

from network.protocol.fields import array, int16, int32, int64, string
from network.protocol.message import Request, Response, Struct


class ControlledShutdownRequest(Request, key=7, versions=(0, 3), flexible=3):
    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


class RemainingPartition(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class ControlledShutdownResponse(Response, key=7, versions=(0, 3), flexible=3):
    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
