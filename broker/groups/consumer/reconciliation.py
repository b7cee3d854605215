"""How a member gets from what it has to what it should have (KIP-848). A pure function.

A partition changes hands in three steps: its owner is told to give it up, says that it did, and only then the next
member gets it. What a member may do next depends on its state:

| state | waits for | then goes on from |
|---|---|---|
| STABLE | a newer target assignment | its epoch |
| UNREVOKED_PARTITIONS | the member's word that it owns none of what is to be revoked | its epoch + 1 |
| UNRELEASED_PARTITIONS | nothing: whatever became free is given at once | its epoch |
| UNKNOWN | the member's word that it owns nothing, else FENCED_MEMBER_EPOCH | the target's epoch |

and where it gets depends on what the target adds and takes away, the first that fits:

| there is | new state | epoch |
|---|---|---|
| something to revoke that the member still owns, or may own | UNREVOKED_PARTITIONS | the one it goes on from |
| something of the target that others still hold | UNRELEASED_PARTITIONS, with all that is free | of the target |
| nothing of these | STABLE, with its whole target | of the target |
"""

from __future__ import annotations

from collections.abc import Callable

from broker.groups.consumer.assignors.spec import NO_PARTITIONS, Partitions, TopicIdPartition
from broker.groups.consumer.model import CurrentAssignment, MemberState
from network.protocol.errors import ApiError, ErrorCode


def reconcile(
    current: CurrentAssignment,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> CurrentAssignment:
    """The next assignment of a member, `current` itself where nothing changes.

    `owned` is what the member says it owns, None if it did not say. Raises ApiError(FENCED_MEMBER_EPOCH).
    """
    match current.state:
        case MemberState.STABLE:
            if current.epoch == target_epoch:
                return current
            return _next(current, current.epoch, target_epoch, target, owned, is_free)
        case MemberState.UNREVOKED_PARTITIONS:
            if owned is None or owned & current.revoking:
                return current
            return _next(current, current.epoch + 1, target_epoch, target, owned, is_free)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(current, current.epoch, target_epoch, target, owned, is_free)
        case MemberState.UNKNOWN:
            if owned is None or owned:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "the member's state is unknown to this coordinator: it must give up all its partitions and rejoin",
                )
            return _next(current, target_epoch, target_epoch, target, owned, is_free)


def _next(
    current: CurrentAssignment,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> CurrentAssignment:
    kept = current.assigned & target
    revoking = current.assigned - kept
    if revoking and (owned is None or owned & revoking):
        return _changed(current, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    wanted = target - kept
    free = frozenset(partition for partition in wanted if is_free(partition))
    state = MemberState.STABLE if len(free) == len(wanted) else MemberState.UNRELEASED_PARTITIONS
    return _changed(current, target_epoch, state, kept | free, NO_PARTITIONS)


def _changed(
    current: CurrentAssignment, epoch: int, state: MemberState, assigned: Partitions, revoking: Partitions
) -> CurrentAssignment:
    same = (epoch, state, assigned, revoking) == (current.epoch, current.state, current.assigned, current.revoking)
    return current if same else CurrentAssignment(epoch, current.epoch, state, assigned, revoking)
