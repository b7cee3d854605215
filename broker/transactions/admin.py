"""Describing and listing transactional ids."""

from __future__ import annotations

from broker.transactions.state import TransactionMetadata, TransactionState
from broker.transactions.state_manager import TransactionStateManager
from network.protocol.errors import ApiError, ErrorCode
from timer.clock import Clock


class TransactionAdmin:
    """The operators' side of the coordinator. Thread-safe."""

    def __init__(self, store: TransactionStateManager, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """The id's metadata; raises ApiError with the code that DescribeTransactions shows for it."""
        if not self._store.is_active:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if transactional_id == "":
            raise ApiError(ErrorCode.INVALID_REQUEST)
        _, metadata = self._store.lookup(transactional_id)
        if metadata is None or metadata.state is TransactionState.DEAD:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return metadata

    def list_transactions(
        self, states: frozenset[TransactionState] | None, producer_ids: frozenset[int], duration_ms: int
    ) -> list[TransactionMetadata]:
        """Ids that pass the filters (None, empty and negative mean: no filter).

        Raises ApiError(COORDINATOR_NOT_AVAILABLE) or ApiError(COORDINATOR_LOAD_IN_PROGRESS).
        """
        if not self._store.is_active:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self._store.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        now = self._clock.wall_ms()
        found = []
        for _, metadata in self._store.all_ids():
            with metadata.lock:
                dead = TransactionState.DEAD in (metadata.state, metadata.pending_state)
                if dead or (producer_ids and metadata.producer_id not in producer_ids):
                    continue
                if states is not None and metadata.state not in states:
                    continue
                if duration_ms >= 0 and now - metadata.start_timestamp <= duration_ms:
                    continue
            found.append(metadata)
        return found
