"""Whether the sender of a request is the member that it says it is, at the epoch that it says.

Checks are in Kafka's order; each raises ApiError, which answers the request.
"""

from __future__ import annotations

from broker.groups.consumer.assignors.spec import Partitions
from broker.groups.consumer.changes import SetCurrent, SetMember, SetTarget
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.model import STATIC_LEAVE_EPOCH, CurrentAssignment
from broker.groups.consumer.update import Update
from network.protocol.errors import ApiError, ErrorCode


def check_epoch(current: CurrentAssignment, epoch: int, owned: Partitions | None) -> None:
    """The member's epoch must be the known one; the one before is that of a member that an answer did not reach.

    Such a member can't have got what the answer gave, so it may own only what it has. Raises FENCED_MEMBER_EPOCH.
    """
    if epoch == current.epoch:
        return
    missed_an_answer = epoch == current.previous_epoch and owned is not None and owned <= current.assigned
    if epoch > current.epoch or not missed_an_answer:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"the member is at epoch {epoch}, known is {current.epoch}: it must give up all its partitions and rejoin",
        )


def require_static(group: ConsumerGroup, member_id: str, instance_id: str) -> str:
    """The member id of an instance that must be there. Raises UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID."""
    known = group.static_members.get(instance_id)
    if known is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"instance {instance_id} is not in group {group.group_id}")
    if known != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID, f"instance {instance_id} of group {group.group_id} is another member now"
        )
    return known


def require_member(group: ConsumerGroup, member_id: str) -> None:
    """Raises UNKNOWN_MEMBER_ID."""
    if member_id not in group.members:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not in group {group.group_id}")


def enter(
    group: ConsumerGroup, update: Update, member_id: str, instance_id: str | None, owned: Partitions | None
) -> str | None:
    """Somebody joins with epoch 0: as a new member, once more, or in the place of a static member that went.

    Returns the member id that was replaced. Raises FENCED_MEMBER_EPOCH, and UNRELEASED_INSTANCE_ID while the
    instance's member has not left.
    """
    if instance_id is None:
        if member_id in group.members:
            check_epoch(group.current(member_id), 0, owned)
        return None
    known = group.static_members.get(instance_id)
    if known is None:
        return None
    if group.current(known).epoch != STATIC_LEAVE_EPOCH:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID, f"instance {instance_id} of group {group.group_id} has not left"
        )
    replace_static(update, known, member_id, 0)
    return known


def replace_static(update: Update, old_id: str, new_id: str, epoch: int) -> None:
    """Give the place of a static member to a new member id: subscription, target and partitions stay."""
    group = update.group
    subscription, target, current = group.members[old_id], group.target(old_id), group.current(old_id)
    if old_id != new_id:
        forget(update, old_id)
    update.make(SetMember(new_id, subscription))
    update.make(SetTarget(new_id, target))
    update.make(SetCurrent(new_id, CurrentAssignment(epoch, epoch, current.state, current.assigned, current.revoking)))


def forget(update: Update, member_id: str) -> None:
    """Remove all that is known of a member."""
    update.make(SetCurrent(member_id, None))
    update.make(SetTarget(member_id, None))
    update.make(SetMember(member_id, None))
