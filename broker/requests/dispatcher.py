"""From a request off the wire to its handler, and from whatever the handler raises to an answer.

The rules are Kafka's: a key that is not served, a version out of range or a body that cannot be parsed close the
connection without an answer (a key that no API has is refused earlier, in `network/server/request_reader.py`);
ApiVersions with an unknown version is answered in version 0. The handler table decides what is served. Every failure of
a handler is answered in the API's error form, and only where the API has no such form (Produce with acks=0, a request
whose bytes are wrong) the connection is closed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from broker.requests.context import BrokerContext
from broker.requests.registry import ApiHandler, Call, RefusedError
from network.protocol.errors import ApiError, ErrorCode, ProtocolError, error_of
from network.server.refusal import refusal, unserved
from network.server.request import Request

logger = logging.getLogger(__name__)

CallFactory = Callable[[Request, Any, BrokerContext], Call[Any]]

_API_VERSIONS = 18


class Dispatcher:
    """Calls the handlers; `handle` is what the network layer is given."""

    def __init__(self, broker: BrokerContext, handlers: Mapping[int, ApiHandler]) -> None:
        self._broker = broker
        self._handlers = handlers
        self.make_call: CallFactory = Call
        """Something else where more has to be known or done of every call than its handler does."""
        self._run_actions = broker.action_queue.run
        self._actions = broker.action_queue.actions

    def handle(self, request: Request) -> None:
        """Answer `request`, or hand it to something that will. Never raises."""
        header = request.header
        handler = self._handlers.get(header.api_key)
        if handler is None or not handler.min_version <= header.api_version <= handler.max_version:
            if handler is None or header.api_key != _API_VERSIONS:
                self._refuse_version(request, handler)
                return
            message: Any = None  # the body of a version from the future cannot be read
        else:
            try:
                message = request.message
            except ProtocolError as error:
                self._refuse(request, f"has a body that cannot be read: {error}")
                return
        call = self.make_call(request, message, self._broker)
        if handler.needs_brokers and self._broker.start_gate.holds(lambda: self._serve(call, handler)):
            return
        self._serve(call, handler)

    def _serve(self, call: Call[Any], handler: ApiHandler) -> None:
        try:
            response = handler.handle(call)
            if response is not None:
                call.respond(response)
        except RefusedError as error:
            self._refuse(call.raw, str(error))
        except Exception as error:
            self._answer_error(call, handler, error)
        if self._actions:
            self._run_actions()

    def _answer_error(self, call: Call[Any], handler: ApiHandler, error: BaseException) -> None:
        code, message = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            unforeseen = None if isinstance(error, ApiError) else error
            logger.error("%s v%d from %s failed", handler.name, call.version, call.connection.id, exc_info=unforeseen)
        if call.answered:
            return
        try:
            response = handler.error_form(call, code, message)
        except Exception:
            logger.exception("no error answer for %s v%d", handler.name, call.version)
            response = None
        if response is None:
            call.close_connection()
        else:
            call.respond(response)

    def _refuse_version(self, request: Request, handler: ApiHandler | None) -> None:
        header, connection = request.header, request.connection
        served = None if handler is None else (handler.min_version, handler.max_version)
        subject = (connection.client_host, header.client_id, header.api_key, header.api_version)
        if self._broker.client_faults.is_new(subject):
            logger.error("connection %s: %s", connection.id, unserved(header, served))
        request.close_connection()

    def _refuse(self, request: Request, reason: str) -> None:
        logger.error("connection %s: %s", request.connection.id, refusal(request.header, reason))
        request.close_connection()


def noted_call(request: Request, message: Any, broker: BrokerContext) -> Call[Any]:
    """A call whose connection says which API is being served."""
    request.connection.api_key = request.header.api_key
    return Call(request, message, broker)
