"""DeleteTopics (key 20, versions 0 to 6): delete topics by name or id."""

from __future__ import annotations

from network.protocol.fields import array, int16, int32, string, uuid
from network.protocol.message import Request, Response, Struct


class DeleteTopicState(Struct):
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+")


class DeleteTopicsRequest(Request, key=20, versions=(0, 6), flexible=4):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5", ignorable=True)
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Response, key=20, versions=(0, 6), flexible=4):
    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
