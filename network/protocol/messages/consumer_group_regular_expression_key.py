"""ConsumerGroupRegularExpressionKey: key of a resolved topic pattern (KIP-848); the version is the record type."""

from __future__ import annotations

from network.protocol.fields import string
from network.protocol.message import StoredPayload


class ConsumerGroupRegularExpressionKey(StoredPayload, versions=(16, 16)):
    group_id: str = string("16")
    regular_expression: str = string("16")
