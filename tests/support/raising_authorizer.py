"""An authorizer that decides for the brokers' own listener only, and raises for everybody else; it is asked in turn."""

from __future__ import annotations

import itertools

from broker.requests.authorization import Operation, ResourceType
from network.server.connection_info import ConnectionInfo

ERRORS: tuple[type[BaseException], ...] = (RuntimeError, SystemExit, KeyboardInterrupt, RecursionError, MemoryError)


class Raises:
    """Named in `authorizer.class.name`."""

    def __init__(self) -> None:
        self._errors = itertools.cycle(ERRORS)

    def authorize(self, connection: ConnectionInfo, operation: Operation, resource: ResourceType, name: str) -> bool:
        if connection.listener_name == "PLAINTEXT":
            return True
        raise next(self._errors)("planted")

    def authorize_any(self, connection: ConnectionInfo, operation: Operation, resource: ResourceType) -> bool:
        return self.authorize(connection, operation, resource, "")
