"""Requests of brokers are exempt from quotas; a client that sends one, and may not, is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.kafka_config import KafkaConfig
from broker.quotas.quota_call import QuotaCall
from broker.quotas.quotas import Quotas
from broker.requests.action_queue import ActionQueue
from broker.requests.dispatcher import Dispatcher
from broker.requests.handlers import import_handlers
from broker.requests.registry import HANDLERS
from broker.requests.start_gate import StartGate
from network.protocol.api import API, ApiKey
from network.protocol.header import RequestHeader, encode_request
from network.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from network.server.connection_info import ConnectionInfo
from network.server.request import SEND, START_THROTTLING, Request
from timer.clock import ManualClock
from timer.metrics import NULL_METRICS

KEY, VERSION = ApiKey.CONTROLLED_SHUTDOWN, 0
SECOND_NS = 10**9


class Responder:
    def __init__(self) -> None:
        self.kinds: list[int] = []
        self.now_ns = lambda: 2 * SECOND_NS

    def respond(self, request: Request, kind: int, payload: Any) -> None:
        self.kinds.append(kind)

    def is_gone(self, request: Request) -> bool:
        return False


@pytest.mark.parametrize(("allowed", "kinds"), [(True, [SEND]), (False, [START_THROTTLING, SEND])])
def test_only_who_may_act_as_a_broker_is_exempt(allowed: bool, kinds: list[int]) -> None:
    import_handlers()
    clock = ManualClock()
    config = KafkaConfig({"zookeeper.connect": "127.0.0.1:1", "broker.id": "1"})
    quotas = Quotas(config, clock, NULL_METRICS, lambda: None, lambda address, rate: None)
    quotas.on_user("mallory", {"request_percentage": "1"})
    broker: Any = SimpleNamespace(
        action_queue=ActionQueue(),
        start_gate=StartGate(),
        quotas=quotas,
        authorizer=SimpleNamespace(authorize=lambda *_, **__: allowed),
        controller=SimpleNamespace(controlled_shutdown=lambda _, respond: respond(ControlledShutdownResponse())),
    )
    dispatcher = Dispatcher(broker, HANDLERS)
    dispatcher.make_call = QuotaCall
    header = RequestHeader(KEY, VERSION, 1)
    frame = memoryview(bytearray(encode_request(header, ControlledShutdownRequest())))[4:]
    responder = Responder()
    body_at = len(frame) - len(ControlledShutdownRequest().encode(VERSION))
    info = ConnectionInfo("id", principal="User:mallory")
    request = Request(header, API[KEY], frame, body_at, info, responder, None, 1)
    request.dequeued_ns = SECOND_NS
    dispatcher.handle(request)
    assert responder.kinds == kinds
