"""From subscriptions and topics to a target assignment. All functions work on an update, under the group's lock."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from broker.groups.consumer import regex
from broker.groups.consumer.assignors.spec import Assignor, AssignorMember
from broker.groups.consumer.changes import SetEpoch, SetRegex, SetTarget, SetTargetEpoch, SetTopics
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.metadata import ClusterTopics, metadata_of
from broker.groups.consumer.model import ResolvedRegex
from broker.groups.consumer.update import Update

logger = logging.getLogger(__name__)

MayDescribe = Callable[[str], bool]
"""Whether who sends a heartbeat may know of the topic."""


def resolve_regexes(
    update: Update, cluster: ClusterTopics, now_ms: int, may_describe: MayDescribe | None = None
) -> None:
    """Match expressions that are new, or all if the topics are not those they were matched with; forget unused ones.

    As in Kafka, topics that the member may not describe whose heartbeat this is are left out, and the result is the
    group's. None for `may_describe`: nobody is there to be asked for, so nothing is matched.

    Raises ApiError(INVALID_REGULAR_EXPRESSION).
    """
    group = update.group
    is_stale = group.seen_layout != cluster.layout_version
    for expression in group.regexes_in_use if may_describe is not None else ():
        known = group.regexes.get(expression)
        if known is not None and not is_stale:
            continue
        topics = frozenset(filter(may_describe, regex.matching(expression, cluster.topics)))
        if known is None or known.topics != topics:
            update.make(SetRegex(expression, ResolvedRegex(topics, cluster.layout_version, now_ms)))
    for expression in [each for each in group.regexes if not group.uses_regex(each)]:
        update.make(SetRegex(expression, None))


def refresh_epoch(
    update: Update,
    cluster: ClusterTopics,
    now_ms: int,
    *,
    is_subscription_changed: bool,
    may_describe: MayDescribe | None = None,
) -> None:
    """Begin a new epoch if subscriptions have changed, or the subscribed topics have; `may_describe` as above."""
    group = update.group
    if not is_subscription_changed and group.seen_layout == cluster.layout_version:
        return
    resolve_regexes(update, cluster, now_ms, may_describe)
    topics = metadata_of(cluster, group.subscribed_topics())
    is_metadata_changed = topics != group.topics
    if is_metadata_changed:
        update.make(SetTopics(topics))
    if may_describe is not None or not group.regexes_in_use:
        group.seen_layout = cluster.layout_version
    if is_subscription_changed or is_metadata_changed:
        update.make(SetEpoch(group.epoch + 1))
        logger.info("group %s: epoch %d", group.group_id, group.epoch)


def assign(update: Update, assignors: Mapping[str, Assignor]) -> None:
    """Make the target assignment of the group's epoch if there is none yet; `assignors` has the default one first."""
    group = update.group
    if group.epoch <= group.target_epoch:
        return
    name = group.preferred_assignor(next(iter(assignors)))
    # A name that a coordinator with other settings has accepted may not be known here.
    assignor = assignors.get(name) or next(iter(assignors.values()))
    members = {member_id: _assignor_member(group, member_id) for member_id in group.members}
    counts = {topic.topic_id: topic.partitions for topic in group.topics.values()}
    for member_id, target in assignor(members, counts).items():
        if group.targets.get(member_id) != target:
            update.make(SetTarget(member_id, target))
    update.make(SetTargetEpoch(group.epoch))


def _assignor_member(group: ConsumerGroup, member_id: str) -> AssignorMember:
    member = group.members[member_id]
    topics = group.topics
    ids = frozenset(topics[name].topic_id for name in group.topics_of(member_id) if name in topics)
    return AssignorMember(ids, group.target(member_id), member.instance_id, member.rack_id)
