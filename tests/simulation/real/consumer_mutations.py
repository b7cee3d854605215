"""Faults planted in the coordinator of groups of the consumer protocol: each breaks one promise to its members."""

from __future__ import annotations

from typing import Any

from broker.groups.consumer import changes, coordinator, membership
from broker.groups.consumer.changes import SetCurrent, SetEpoch, SetMember, SetTarget, SetTargetEpoch
from broker.groups.consumer.coordinator import ConsumerGroupCoordinator
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.reconciliation import reconcile
from broker.groups.consumer.update import Update
from broker.groups.records import keys
from network.protocol.errors import ErrorCode
from tests.simulation.planted import Mutations, Patch

MUTATIONS = Mutations()
mutation = MUTATIONS.add


@mutation
def partitions_are_given_before_they_are_given_up(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "is_free", lambda self, partition: True)


@mutation
def silence_gives_partitions_up(patch: Patch) -> None:
    """A heartbeat that says nothing of what the member owns is taken for one that says that it owns nothing."""

    def hasty(current: Any, epoch: int, target: Any, owned: Any, is_free: Any) -> Any:
        return reconcile(current, epoch, target, owned or frozenset(), is_free)

    patch.setattr(coordinator, "reconcile", hasty)


@mutation
def members_without_heartbeats_stay(patch: Patch) -> None:
    patch.setattr(ConsumerGroupCoordinator, "_on_session_over", lambda self, group, member_id: None)


@mutation
def who_leaves_keeps_its_partitions(patch: Patch) -> None:
    def forget(update: Update, member_id: str) -> None:
        update.make(SetTarget(member_id, None))
        update.make(SetMember(member_id, None))

    patch.setattr(membership, "forget", forget)
    patch.setattr(ConsumerGroup, "forget_strangers", lambda self: None)


@mutation
def a_new_coordinator_forgets_who_holds_what(patch: Patch) -> None:
    patch.setitem(changes._DECODERS, keys.CURRENT, lambda member_id, value: SetCurrent(member_id, None))


@mutation
def a_new_coordinator_begins_with_an_old_epoch(patch: Patch) -> None:
    patch.setitem(changes._DECODERS, keys.EPOCH, lambda *_: SetEpoch(1))
    patch.setitem(changes._DECODERS, keys.TARGET_EPOCH, lambda *_: SetTargetEpoch(1))


@mutation
def members_of_any_epoch_may_commit(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "commit_error", lambda self, committer: ErrorCode.NONE)


@mutation
def a_heartbeat_of_any_epoch_is_good(patch: Patch) -> None:
    """Of members that are not known, too: they come in as they are."""
    patch.setattr(membership, "check_epoch", lambda current, epoch, owned: None)
    patch.setattr(membership, "require_member", lambda group, member_id: None)


@mutation
def members_are_told_before_it_is_stored(patch: Patch) -> None:
    real = Update.write

    def write(self: Update, writer: Any, done: Any) -> None:
        real(self, writer, lambda error: None)
        done(ErrorCode.NONE)

    patch.setattr(Update, "write", write)


@mutation
def what_was_not_acknowledged_is_told_the_second_time(patch: Patch) -> None:
    """A batch whose acknowledgement failed counts as stored when the member asks again."""
    patch.setattr(ConsumerGroup, "is_unsettled", property(lambda self: False, lambda self, _: None), raising=False)
