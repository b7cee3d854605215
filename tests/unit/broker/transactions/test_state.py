"""The table of a transactional id's states."""

import pytest

from broker.transactions.state import VALID_PREVIOUS, InvalidTransitionError, TransactionMetadata
from tests.support.transaction_coordinator import S


def test_every_transition_outside_the_table_is_refused_and_changes_nothing() -> None:
    for target, previous in VALID_PREVIOUS.items():
        for state in set(S) - previous:
            metadata = TransactionMetadata("tx", 1, 1000, producer_epoch=0, state=state)
            with pytest.raises(InvalidTransitionError):
                metadata._prepare(target, now=5)
            assert metadata.pending_state is None
            assert metadata.state is state
