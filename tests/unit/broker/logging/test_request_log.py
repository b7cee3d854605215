"""The request log: Kafka's form, and nothing secret in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.logging.request_log import REQUEST_LOGGER, TRACE, described, request_log
from network.protocol.api import API
from network.protocol.header import RequestHeader
from network.protocol.message import Request as Message
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from network.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from network.server.connection_info import ConnectionInfo
from network.server.request import Request


class Nobody:
    def __init__(self) -> None:
        self.now_ns: Callable[[], int] = lambda: 5_000_000

    def respond(self, request: Request, kind: int, payload: Any) -> None:
        pass

    def is_gone(self, request: Request) -> bool:
        return False


@pytest.fixture(autouse=True)
def _traced() -> Iterator[None]:
    logging.getLogger(REQUEST_LOGGER).setLevel(TRACE)
    yield
    logging.getLogger(REQUEST_LOGGER).setLevel(logging.NOTSET)


def received(message: Message, version: int) -> Request:
    spec = API[message.API_KEY]
    header = RequestHeader(message.API_KEY, version, 7, "me")
    body = memoryview(message.encode(version))
    return Request(header, spec, body, 0, ConnectionInfo("1-2-0"), Nobody(), None, 1_000_000)


def shown(request: Request) -> str:
    return json.dumps(described(request, 9_000_000))


def test_it_is_off_above_debug() -> None:
    assert request_log() is not None
    logging.getLogger(REQUEST_LOGGER).setLevel(logging.INFO)
    assert request_log() is None


def test_a_line_has_header_times_and_errors() -> None:
    data = [PartitionProduceData(index=0, records=b"secret record")]
    request = received(ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)]), 9)
    answers = [PartitionProduceResponse(index=0, error_code=3), PartitionProduceResponse(index=1)]
    request.respond(ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=answers)]))
    found = described(request, 9_000_000)
    assert found["requestHeader"]["requestApiKeyName"] == "PRODUCE"
    assert found["requestHeader"]["correlationId"] == 7
    assert found["errors"] == {"UNKNOWN_TOPIC_OR_PARTITION": 1, "NONE": 1}
    assert found["totalTimeMs"] == 8.0
    assert found["request"]["topicData"][0]["partitionData"][0]["records"] == "(13 bytes)"
    assert "secret record" not in shown(request)


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in shown(received(SaslAuthenticateRequest(auth_bytes=b"\0me\0hunter2"), 2))
    configs = [
        AlterableConfig(name="ssl.keystore.password", value="hunter2"),
        AlterableConfig(name="listener.name.a.ssl.key.password", value="hunter2"),
        AlterableConfig(name="no.such.key", value="hunter2"),
        AlterableConfig(name="log.retention.ms", value="1234"),
    ]
    resource = AlterConfigsResource(resource_type=4, resource_name="0", configs=configs)
    line = shown(received(IncrementalAlterConfigsRequest(resources=[resource]), 1))
    assert "hunter2" not in line
    assert '"1234"' in line
    assert line.count("(hidden)") == 3
