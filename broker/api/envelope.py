"""Envelope (key 58, version 0): a request that a broker forwards to the controller for a client.

Brokers forward in KRaft mode and during a migration to it, never in ZooKeeper mode. Kafka advertises the key all the
same and closes the connection of whoever uses it.
"""

from __future__ import annotations

from broker.requests.registry import Call, RefusedError, api
from network.protocol.api import ApiKey
from network.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse


@api(ApiKey.ENVELOPE, versions=(0, 0))
def handle(call: Call[EnvelopeRequest]) -> EnvelopeResponse:
    raise RefusedError("requests are not forwarded in ZooKeeper mode")
