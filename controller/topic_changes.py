"""Topics and partitions that appear in or vanish from ZooKeeper, and requests to delete topics."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from controller.core import ControllerCore
from controller.event_manager import ControllerState
from controller.states import PartitionReplica, PartitionStatus, ReplicaStatus
from controller.topic_deletion import TopicDeletion
from controller.zk import paths
from controller.zk.ops import Code
from controller.zk.payloads import TopicZnode
from controller.zk.session import DataHandler
from log.topic_partition import TopicPartition
from network.protocol.uuids import new_uuid

logger = logging.getLogger(__name__)


class TopicChanges:
    """Runs on the event thread, except the watch handlers, which enqueue."""

    def __init__(self, core: ControllerCore) -> None:
        self._core = core
        self._watched: set[str] = set()

    # -- watches of the topics' znodes ---------------------------------------------------------------------------------

    def watch(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self._watched.add(topic)
            self._core.zk.session.register_data_handler(
                DataHandler(paths.topic(topic), on_changed=lambda topic=topic: self._changed(topic))  # type: ignore[misc]
            )

    def unwatch(self, topic: str) -> None:
        self._watched.discard(topic)
        self._core.zk.session.unregister_data_handler(paths.topic(topic))

    def stop_watching(self) -> None:
        for topic in list(self._watched):
            self.unwatch(topic)

    def _changed(self, topic: str) -> None:
        self._core.enqueue(
            f"PartitionModifications({topic})", ControllerState.TOPIC_CHANGE, lambda: self.partitions_changed(topic)
        )

    # -- at failover ---------------------------------------------------------------------------------------------------

    def load(self) -> dict[TopicPartition, int]:
        """Read all topics into the context, arming their watches; the zxid of the last write of each state."""
        context = self._core.context
        context.topics = self._core.zk.topic_names()
        self.watch(sorted(context.topics))
        self._take_in(self._core.zk.topics(sorted(context.topics)))
        for partition in context.all_partitions():
            if context.assignment(partition).being_reassigned:
                context.reassigning.add(partition)
        partitions = list(context.all_partitions())
        written = {}
        for partition, (state, zxid) in self._core.zk.partition_states_written(partitions).items():
            context.set_leadership(partition, state)
            written[partition] = zxid
        return written

    # -- events --------------------------------------------------------------------------------------------------------

    def topics_changed(self) -> None:
        """Topics came or went below `/brokers/topics`."""
        context = self._core.context
        if context.epoch == 0:
            return
        current = self._core.zk.topic_names()
        new = sorted(current - context.topics)
        gone = context.topics - current
        for topic in gone:
            self.unwatch(topic)
            context.remove_topic(topic)
        context.topics |= current
        self.watch(new)
        added = self._take_in(self._core.zk.topics(new))
        if new or gone:
            logger.info("New topics: %s, deleted topics: %s", new, sorted(gone))
        self._create_partitions(added)

    def partitions_changed(self, topic: str) -> None:
        """The znode of a topic changed: partitions that are not known yet are new, other differences are ignored."""
        core, context = self._core, self._core.context
        if context.epoch == 0 or topic not in context.topics:
            return
        znode = core.zk.topic(topic)
        if znode is None:
            return
        added = sorted(
            TopicPartition(topic, number)
            for number in znode.assignment
            if not context.has_partition(TopicPartition(topic, number))
        )
        if not added:
            return
        if context.is_queued_for_deletion(topic):
            logger.warning("Taking back partitions %s: topic %s is being deleted", added, topic)
            self._restore_assignment(topic)
            return
        for partition in added:
            context.set_assignment(partition, znode.assignment[partition.partition])
        logger.info("New partitions to be created: %s", [str(item) for item in added])
        self._create_partitions(added)

    def deletion_requested(self, deletion: TopicDeletion) -> None:
        """`/admin/delete_topics` has (new) entries."""
        core, context = self._core, self._core.context
        if context.epoch == 0:
            return
        asked = core.zk.topics_to_delete()
        unknown = sorted(asked - context.topics)
        if unknown:
            logger.warning("Ignoring the request to delete topics that do not exist: %s", unknown)
            core.zk.delete_topic_markers(unknown, core.fence)
        known = sorted(asked & context.topics)
        if not known:
            return
        if not deletion.enabled:
            logger.info("Removing the deletion requests of %s: delete.topic.enable is false", known)
            core.zk.delete_topic_markers(known, core.fence)
            return
        logger.info("Starting topic deletion for topics %s", known)
        new = [topic for topic in known if topic not in context.topics_to_delete]
        context.queue_for_deletion(new)
        moving = {partition.topic for partition in context.reassigning}
        deletion.mark_ineligible([topic for topic in known if topic in moving], "topic reassignment in progress")
        deletion.enqueue(known)

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _take_in(self, topics: Mapping[str, TopicZnode]) -> list[TopicPartition]:
        """Put topics into the context, giving ids to those that have none; returns their partitions."""
        context, config = self._core.context, self._core.config
        if config.uses_topic_ids:
            topics = self._with_ids(topics)
        partitions: list[TopicPartition] = []
        for topic, znode in topics.items():
            if znode.topic_id is not None and config.uses_topic_ids:
                context.add_topic_id(topic, znode.topic_id)
            for number, assignment in sorted(znode.assignment.items()):
                partition = TopicPartition(topic, number)
                context.set_assignment(partition, assignment)
                partitions.append(partition)
        return partitions

    def _with_ids(self, topics: Mapping[str, TopicZnode]) -> Mapping[str, TopicZnode]:
        chance = self._core.chance
        nameless = {
            topic: replace(znode, topic_id=new_uuid(chance)) for topic, znode in topics.items() if not znode.topic_id
        }
        if not nameless:
            return topics
        whole = dict(topics)
        for topic, code in self._core.zk.set_topics(nameless, self._core.fence).items():
            if code is Code.OK:
                whole[topic] = nameless[topic]
            else:
                logger.error("Could not give topic %s an id: %s", topic, code.name)
        return whole

    def _create_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        core, context = self._core, self._core.context
        if not partitions:
            return
        replicas = [PartitionReplica(item, broker) for item in partitions for broker in context.replicas(item)]
        core.partitions.change(partitions, PartitionStatus.NEW)
        core.replicas.change(replicas, ReplicaStatus.NEW)
        core.partitions.change(partitions, PartitionStatus.ONLINE, core.partitions.offline_rule())
        core.replicas.change(replicas, ReplicaStatus.ONLINE)

    def _restore_assignment(self, topic: str) -> None:
        core, context = self._core, self._core.context
        created = core.zk.partition_numbers(topic)
        kept = {
            number: assignment for number, assignment in context.assignments.get(topic, {}).items() if number in created
        }
        core.zk.set_topic(topic, TopicZnode(context.topic_ids.get(topic), kept), core.fence)
