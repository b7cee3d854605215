"""TransactionLogKey: key of a transactional id in `__transaction_state`."""

from __future__ import annotations

from network.protocol.fields import string
from network.protocol.message import StoredPayload


class TransactionLogKey(StoredPayload, versions=(0, 0)):
    transactional_id: str = string("0")
