"""The state machine of one transactional id.

States and the states each may be entered from stand in one table. A change has two halves: `prepare_*`
checks it, marks it pending and returns the values it would set (`Transition`); `complete` takes
these values once their record is stored. At most one change is pending at a time (KIP-98).
PrepareEpochFence and Dead live in memory only and are never written.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import IntEnum

from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
# The last epoch is kept for the fence of the id itself, so one less than the largest int16 is the end.
MAX_EPOCH = 32767


class TransactionState(IntEnum):
    """States with the ids that records carry."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def wire_name(self) -> str:
        """Name as ListTransactions and DescribeTransactions show it."""
        return WIRE_NAMES[self]


_S = TransactionState

WIRE_NAMES = {
    _S.EMPTY: "Empty",
    _S.ONGOING: "Ongoing",
    _S.PREPARE_COMMIT: "PrepareCommit",
    _S.PREPARE_ABORT: "PrepareAbort",
    _S.COMPLETE_COMMIT: "CompleteCommit",
    _S.COMPLETE_ABORT: "CompleteAbort",
    _S.DEAD: "Dead",
    _S.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}

VALID_PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: frozenset({_S.ONGOING, _S.PREPARE_EPOCH_FENCE}),
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: frozenset({_S.EMPTY, _S.COMPLETE_ABORT, _S.COMPLETE_COMMIT}),
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}

MAY_EXPIRE = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})


class InvalidTransitionError(Exception):
    """A state change that the table forbids: a fault of the coordinator, never of a client."""


def is_epoch_exhausted(epoch: int) -> bool:
    """True when an epoch can't be bumped once more without losing the room for a fence."""
    return epoch >= MAX_EPOCH - 1


@dataclass(frozen=True, slots=True)
class Transition:
    """The values that an id has after a change; what is stored is a projection of this."""

    producer_id: int
    last_producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    start_timestamp: int
    last_update_timestamp: int


@dataclass(slots=True)
class TransactionMetadata:
    """What the coordinator knows of one transactional id. Callers hold `lock` around every use."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: set[TopicPartition] = field(default_factory=set)
    start_timestamp: int = NO_TIMESTAMP
    last_update_timestamp: int = NO_TIMESTAMP
    pending_state: TransactionState | None = None
    failed_epoch_fence: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False, compare=False)

    # --- prepare: checks, marks pending, returns the values to store ---

    def prepare_new_epoch(self, timeout_ms: int, expected_epoch: int | None, now: int) -> Transition:
        """A new epoch for the same producer id; a retry whose answer was lost gets its epoch again (KIP-360).

        Raises ApiError(PRODUCER_FENCED) when the expected epoch is neither the current nor the last one.
        """
        if is_epoch_exhausted(self.producer_epoch):
            raise InvalidTransitionError(f"epoch {self.producer_epoch} of {self.transactional_id} is exhausted")
        bumped = self.producer_epoch + 1
        if expected_epoch is None:
            epoch, last = bumped, NO_PRODUCER_EPOCH
        elif self.producer_epoch == NO_PRODUCER_EPOCH or expected_epoch == self.producer_epoch:
            epoch, last = bumped, self.producer_epoch
        elif expected_epoch == self.last_producer_epoch:
            epoch, last = self.producer_epoch, self.last_producer_epoch
        else:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        return self._prepare(
            TransactionState.EMPTY,
            producer_epoch=epoch,
            last_producer_epoch=last,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_timestamp=NO_TIMESTAMP,
            now=now,
        )

    def prepare_producer_id_rotation(
        self, new_producer_id: int, timeout_ms: int, now: int, record_last_epoch: bool
    ) -> Transition:
        """A new producer id with epoch 0, because the epochs of the old one are used up."""
        return self._prepare(
            TransactionState.EMPTY,
            producer_id=new_producer_id,
            last_producer_id=self.producer_id,
            producer_epoch=0,
            last_producer_epoch=self.producer_epoch if record_last_epoch else NO_PRODUCER_EPOCH,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_timestamp=NO_TIMESTAMP,
            now=now,
        )

    def prepare_add_partitions(self, added: frozenset[TopicPartition], now: int) -> Transition:
        """Begin or extend the open transaction."""
        begins = self.state in MAY_EXPIRE
        return self._prepare(
            TransactionState.ONGOING,
            partitions=frozenset(self.partitions) | added,
            start_timestamp=now if begins else self.start_timestamp,
            now=now,
        )

    def prepare_fence(self) -> Transition:
        """Shut out the producer of an open transaction by one more epoch, before its abort.

        A fence whose abort could not be stored is not counted twice: it uses its epoch again.
        """
        if self.producer_epoch == MAX_EPOCH:
            raise InvalidTransitionError(f"epoch of {self.transactional_id} can't be bumped past {MAX_EPOCH}")
        epoch = self.producer_epoch if self.failed_epoch_fence else self.producer_epoch + 1
        return self._prepare(
            TransactionState.PREPARE_EPOCH_FENCE,
            producer_epoch=epoch,
            last_producer_epoch=NO_PRODUCER_EPOCH,
            now=self.last_update_timestamp,
        )

    def prepare_end(self, commit: bool, now: int) -> Transition:
        """The decision: PrepareCommit or PrepareAbort. After a fence the bumped epoch is already the current one."""
        return self._prepare(TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT, now=now)

    def prepare_complete(self, now: int) -> Transition:
        """All markers are written: CompleteCommit or CompleteAbort."""
        commit = self.state is TransactionState.PREPARE_COMMIT
        self.failed_epoch_fence = False
        return self._prepare(
            TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            now=now,
        )

    def prepare_dead(self) -> Transition:
        """The id has been unused for too long and will be forgotten."""
        return self._prepare(TransactionState.DEAD, partitions=frozenset(), now=self.last_update_timestamp)

    def _prepare(
        self,
        state: TransactionState,
        *,
        now: int,
        producer_id: int | None = None,
        last_producer_id: int | None = None,
        producer_epoch: int | None = None,
        last_producer_epoch: int | None = None,
        timeout_ms: int | None = None,
        partitions: frozenset[TopicPartition] | None = None,
        start_timestamp: int | None = None,
    ) -> Transition:
        if self.pending_state is not None:
            raise InvalidTransitionError(
                f"{self.transactional_id}: {state.name} asked for while {self.pending_state.name} is pending"
            )
        if self.state not in VALID_PREVIOUS[state]:
            raise InvalidTransitionError(f"{self.transactional_id}: {self.state.name} can't become {state.name}")
        self.pending_state = state
        return Transition(
            producer_id=self.producer_id if producer_id is None else producer_id,
            last_producer_id=self.last_producer_id if last_producer_id is None else last_producer_id,
            producer_epoch=self.producer_epoch if producer_epoch is None else producer_epoch,
            last_producer_epoch=self.last_producer_epoch if last_producer_epoch is None else last_producer_epoch,
            timeout_ms=self.timeout_ms if timeout_ms is None else timeout_ms,
            state=state,
            partitions=frozenset(self.partitions) if partitions is None else partitions,
            start_timestamp=self.start_timestamp if start_timestamp is None else start_timestamp,
            last_update_timestamp=now,
        )

    # --- the second half ---

    def take_fence(self, fence: Transition) -> None:
        """Replace the pending fence by its values in memory; the abort that follows is what gets stored."""
        if self.pending_state is not TransactionState.PREPARE_EPOCH_FENCE:
            raise InvalidTransitionError(f"{self.transactional_id}: no fence is pending")
        self.producer_epoch = fence.producer_epoch
        self.last_producer_epoch = fence.last_producer_epoch
        self.pending_state = None

    def complete(self, to: Transition) -> None:
        """Take the values of a stored transition.

        Raises InvalidTransitionError when it is not the pending one or its values can't follow the current ones;
        nothing is changed then.
        """
        if self.pending_state is not to.state:
            raise InvalidTransitionError(
                f"{self.transactional_id}: {to.state.name} completed while pending is "
                f"{self.pending_state.name if self.pending_state is not None else None}"
            )
        self._check_values(to)
        self.producer_id = to.producer_id
        self.last_producer_id = to.last_producer_id
        self.producer_epoch = to.producer_epoch
        self.last_producer_epoch = to.last_producer_epoch
        self.timeout_ms = to.timeout_ms
        self.partitions = set(to.partitions)
        self.start_timestamp = to.start_timestamp
        self.last_update_timestamp = to.last_update_timestamp
        self.state = to.state
        self.pending_state = None

    def give_up(self, state: TransactionState) -> None:
        """The change to this state could not be stored; nothing is pending any more, unless it is another by now."""
        if self.pending_state is state:
            self.pending_state = None

    def _check_values(self, to: Transition) -> None:
        state = to.state
        same_producer = to.producer_id == self.producer_id and to.producer_epoch == self.producer_epoch
        if state is TransactionState.EMPTY:
            valid = not to.partitions and to.start_timestamp == NO_TIMESTAMP
        elif state is TransactionState.ONGOING:
            valid = same_producer and to.partitions >= self.partitions
        elif state in PREPARED:
            valid = same_producer and to.partitions == self.partitions
        elif state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
            valid = same_producer and not to.partitions
        else:
            valid = False
        if not valid:
            raise InvalidTransitionError(f"{self.transactional_id}: {to} can't follow {self}")
