"""Groups with members that change their protocol (KIP-848): up when the first consumer-protocol member comes, down when
the last one goes or a classic static member takes its place.

`group.consumer.migration.policy` says which way is allowed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.groups.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from broker.groups.classic.member import Member
from broker.groups.classic.rebalance import Rebalancer
from broker.groups.classic.states import Event
from broker.groups.config import GroupConfig
from broker.groups.consumer.assignors.spec import Partitions
from broker.groups.consumer.changes import SetCurrent, SetEpoch, SetMember, SetTarget, SetTargetEpoch
from broker.groups.consumer.config import ConsumerGroupConfig
from broker.groups.consumer.embedded import (
    CustomAssignorError,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.metadata import TopicsView
from broker.groups.consumer.model import ClassicProtocols, CurrentAssignment, MemberState, Subscription
from broker.groups.consumer.update import Update
from broker.groups.metadata_manager import GroupMetadataManager
from broker.groups.records import values
from broker.groups.records.writer import Entry, GroupWriter
from network.protocol.errors import ErrorCode, ProtocolError
from timer.clock import Clock

logger = logging.getLogger(__name__)


class Migration:
    """All methods are called under the group's lock."""

    def __init__(
        self,
        owned: GroupMetadataManager,
        writer: GroupWriter,
        config: GroupConfig,
        consumer_config: ConsumerGroupConfig,
        rebalancer: Rebalancer,
        topics: TopicsView,
        clock: Clock,
    ) -> None:
        self._owned = owned
        self._writer = writer
        self._config = config
        self._consumer_config = consumer_config
        self._rebalancer = rebalancer
        self._topics = topics
        self._clock = clock

    # --- up ---

    def upgrade(self, classic: ClassicGroup) -> Update | None:
        """Make a consumer group of a classic one with members; None if that may not or can not be.

        Members keep what they have, and go on with the classic protocol. Whoever waits for an answer is told to join
        again. The caller writes the update; if the log refuses it, the group is again as a load would find it.
        """
        if not self._consumer_config.migration_policy.allows_upgrade or classic.is_dead:
            return None
        if classic.protocol_type != CONSUMER_PROTOCOL_TYPE or classic.size > self._consumer_config.max_size:
            return None
        try:
            members = {member.member_id: self._converted(classic, member) for member in classic}
        except (ProtocolError, KeyError, IndexError):
            logger.warning("group %s keeps its protocol: a member's subscription cannot be read", classic.group_id)
            return None
        except CustomAssignorError:
            logger.warning("group %s keeps its protocol: its assignor adds data of its own", classic.group_id)
            return None
        assignment = {member.member_id: member.assignment for member in classic}
        restored = values.decode_group_value(
            classic.group_id, values.group_value(classic, assignment), self._clock, classic
        )
        self._dismiss(classic)
        group = ConsumerGroup(classic.group_id, successor_of=classic)
        self._owned.replace(classic, group)
        update = Update(group, on_undone=lambda: self._take_back(group, restored))
        generation = classic.generation_id
        for member_id, (subscription, assigned) in members.items():
            update.make(SetMember(member_id, subscription))
            update.make(SetTarget(member_id, assigned))
            update.make(SetCurrent(member_id, CurrentAssignment(generation, generation, MemberState.STABLE, assigned)))
        update.make(SetEpoch(generation))
        update.make(SetTargetEpoch(generation))
        logger.info("group %s: %d members go over to the consumer protocol", group.group_id, len(members))
        return update

    def _converted(self, classic: ClassicGroup, member: Member) -> tuple[Subscription, Partitions]:
        cluster = self._topics()
        protocol = classic.protocol_name
        metadata = member.protocols[0][1] if protocol is None else member.metadata(protocol)
        embedded = decode_subscription(metadata, cluster)
        subscription = Subscription(
            instance_id=member.group_instance_id,
            rack_id=embedded.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=embedded.topics,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
        )
        return subscription, decode_assignment(member.assignment, cluster)

    def _dismiss(self, classic: ClassicGroup) -> None:
        """End what the classic group waits for."""
        classic.is_replaced = True
        self._rebalancer.fire(classic, Event.DISMISSED)

    def _take_back(self, group: ConsumerGroup, classic: ClassicGroup) -> None:
        group.is_replaced = True
        group.die()
        self._owned.replace(group, classic)
        self._watch(classic)
        self._rebalancer.rebalance(classic, "the group could not change its protocol")

    # --- down ---

    def downgrade(
        self, group: ConsumerGroup, end_timers: Callable[[ConsumerGroup, str], None], *, is_replaced: bool = False
    ) -> None:
        """Make a classic group of one whose members all speak the classic protocol, if that may be.

        The records of both are one batch; if the log refuses it, the group stays what it is, which serves such members
        too. The members rebalance at once, unless one was replaced and all have what they should (KIP-345: a static
        member that comes back disturbs nobody).
        """
        members = group.members
        if not self._consumer_config.migration_policy.allows_downgrade or group.is_dead or not members:
            return
        if any(member.classic is None for member in members.values()) or len(members) > self._config.max_size:
            return
        disturbs_nobody = is_replaced and all(
            group.current(member_id).assigned == group.target(member_id) for member_id in members
        )
        classic = self._classic(group)
        assignment = {member.member_id: member.assignment for member in classic}
        entries: list[Entry] = [(key, None) for key in group.record_keys()]
        entries.append(self._writer.group_entry(classic, assignment))
        is_appending, is_refused = True, False

        def written(error: ErrorCode) -> None:
            nonlocal is_refused
            is_refused = is_appending and error is not ErrorCode.NONE

        self._writer.write_records(group.group_id, entries, written)
        is_appending = False
        if is_refused:
            return
        group.is_replaced = True
        group.die()
        for member_id in members:
            end_timers(group, member_id)
        self._owned.replace(group, classic)
        logger.info("group %s: %d members go back to the classic protocol", group.group_id, len(members))
        self._watch(classic)
        if not disturbs_nobody:
            self._rebalancer.rebalance(classic, "the last member of the consumer protocol is gone")

    def _classic(self, group: ConsumerGroup) -> ClassicGroup:
        cluster = self._topics()
        classic = ClassicGroup(group.group_id, self._clock, successor_of=group)
        classic.take(Event.RESTORED)
        # Members that have their targets are at this epoch, so their heartbeats are not of a wrong generation.
        classic.generation_id = group.target_epoch
        for member_id, member in group.members.items():
            assert member.classic is not None
            protocols = member.classic.protocols
            classic.add(
                Member(
                    member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.classic.session_timeout_ms,
                    CONSUMER_PROTOCOL_TYPE,
                    protocols,
                    encode_assignment(group.target(member_id), cluster, protocols[0][1]),
                )
            )
        classic.protocol_name = classic.select_protocol()
        classic.subscribed_topics = classic.compute_subscribed_topics()
        return classic

    def _watch(self, classic: ClassicGroup) -> None:
        for member in classic:
            self._rebalancer.restart_session(classic, member)
