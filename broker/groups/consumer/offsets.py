"""Who may commit and fetch offsets of a consumer group: its members, at their epochs. Called under the group's lock."""

from __future__ import annotations

from broker.groups.consumer.group import ConsumerGroup
from network.protocol.errors import ErrorCode


def commit_error(group: ConsumerGroup, member_id: str, epoch: int, knows_epochs: bool) -> ErrorCode:
    """Of OffsetCommit. Nobody in particular may commit while the group is empty; `knows_epochs` from version 9 on."""
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and not knows_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    return _epoch_error(group, member_id, epoch)


def transactional_commit_error(group: ConsumerGroup, member_id: str, epoch: int) -> ErrorCode:
    """Of TxnOffsetCommit by a member."""
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    # Its answers have no STALE_MEMBER_EPOCH.
    return ErrorCode.NONE if epoch == group.current(member_id).epoch else ErrorCode.ILLEGAL_GENERATION


def fetch_error(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Of OffsetFetch; without member and epoch anybody may."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    if member_id is None or member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return _epoch_error(group, member_id, epoch)


def _epoch_error(group: ConsumerGroup, member_id: str, epoch: int) -> ErrorCode:
    if epoch == group.current(member_id).epoch:
        return ErrorCode.NONE
    is_classic = group.members[member_id].classic is not None
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
