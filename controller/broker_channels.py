"""What the controller needs of the way to the brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from controller.zk.payloads import BrokerInfo
from network.protocol.message import Request

ResponseCallback = Callable[[Any], None]


class BrokerChannels(Protocol):
    """Ordered, retried delivery of requests to each broker; nothing here blocks.

    A request is sent again until it is answered or its broker is removed, which drops what is queued.
    """

    def start(self, brokers: Iterable[BrokerInfo]) -> None:
        """Open a channel to each broker."""
        ...

    def add_broker(self, broker: BrokerInfo) -> None: ...

    def remove_broker(self, broker_id: int) -> None: ...

    def send(self, broker_id: int, request: Request, version: int, callback: ResponseCallback | None) -> None:
        """Queue a request. `callback` gets the response on the channel's thread and must only enqueue.

        Ignored for a broker without channel.
        """
        ...

    def shutdown(self) -> None:
        """Close all channels; `start` may follow."""
        ...
