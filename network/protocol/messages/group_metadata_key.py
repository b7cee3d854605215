"""GroupMetadataKey: key of a classic group in `__consumer_offsets`."""

from __future__ import annotations

from network.protocol.fields import string
from network.protocol.message import StoredPayload


class GroupMetadataKey(StoredPayload, versions=(2, 2)):
    group: str = string("2")
