"""Deleting topics: what is queued, what has to wait, and what happens when brokers answer.

A topic waits (is ineligible) while one of its partitions is being reassigned, one of its replicas is offline, or the
deletion of a replica failed. It is tried again when the broker comes back or the reassignment ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from controller.core import ControllerCore
from controller.states import PartitionReplica, PartitionStatus, ReplicaStatus

logger = logging.getLogger(__name__)


class TopicDeletion:
    """Drives deletions on the event thread; the state itself is in the context."""

    def __init__(self, core: ControllerCore, stop_watching_topic: Callable[[str], None]) -> None:
        self._core = core
        self._stop_watching_topic = stop_watching_topic

    @property
    def enabled(self) -> bool:
        return self._core.config.delete_topic_enable

    def init(self, topics: Collection[str], ineligible: Collection[str]) -> None:
        """At failover: take over what is queued, or throw it away if deletion is disabled."""
        if self.enabled:
            self._core.context.queue_for_deletion(topics)
            self._core.context.topics_ineligible |= set(topics) & set(ineligible)
        elif topics:
            logger.info("Removing the deletion requests of %s: delete.topic.enable is false", sorted(topics))
            self._core.zk.delete_topic_markers(sorted(topics), self._core.fence)

    def resume(self) -> None:
        """Advance whatever can be advanced."""
        if self.enabled:
            self._resume()

    def enqueue(self, topics: Iterable[str]) -> None:
        if self.enabled:
            self._core.context.queue_for_deletion(topics)
            self._resume()

    def resume_for(self, topics: Iterable[str]) -> None:
        """What made these topics wait is over."""
        if not self.enabled:
            return
        context = self._core.context
        waiting = set(topics) & context.topics_to_delete
        if waiting:
            context.topics_ineligible -= waiting
            self._resume()

    def mark_ineligible(self, topics: Iterable[str], reason: str) -> None:
        if not self.enabled:
            return
        context = self._core.context
        waiting = set(topics) & context.topics_to_delete
        if waiting:
            context.topics_ineligible |= waiting
            logger.info("Deletion of %s has to wait: %s", sorted(waiting), reason)

    def fail_replicas(self, replicas: Iterable[PartitionReplica]) -> None:
        """These replicas could not be deleted, or went offline meanwhile."""
        if not self.enabled:
            return
        context = self._core.context
        failed = [item for item in replicas if context.is_queued_for_deletion(item.partition.topic)]
        if failed:
            topics = {item.partition.topic for item in failed}
            logger.debug("Deletion failed for replicas %s", failed)
            self._core.replicas.change(failed, ReplicaStatus.DELETION_INELIGIBLE)
            self.mark_ineligible(topics, "replica deletion failed")
            self._resume()

    def complete_replicas(self, replicas: Iterable[PartitionReplica]) -> None:
        """Brokers confirmed the deletion of these replicas."""
        context = self._core.context
        deleted = [item for item in replicas if context.is_queued_for_deletion(item.partition.topic)]
        self._core.replicas.change(deleted, ReplicaStatus.DELETION_SUCCESSFUL)
        self.resume()

    def _resume(self) -> None:
        context = self._core.context
        retry: set[str] = set()
        start: set[str] = set()
        for topic in sorted(context.topics_to_delete):
            states = {context.replica_state(item) for item in context.replicas_of_topic(topic)}
            if states <= {ReplicaStatus.DELETION_SUCCESSFUL}:
                self._complete(topic)
                continue
            if ReplicaStatus.DELETION_STARTED in states:
                continue
            if ReplicaStatus.DELETION_INELIGIBLE in states:
                retry.add(topic)
            if topic not in context.topics_ineligible:
                start.add(topic)
        for topic in sorted(retry):
            failed = context.replicas_in_state(topic, ReplicaStatus.DELETION_INELIGIBLE)
            self._core.replicas.change(failed, ReplicaStatus.OFFLINE)
        if start:
            self._start(start)

    def _start(self, topics: Collection[str]) -> None:
        core, context = self._core, self._core.context
        first_time = sorted(set(topics) - context.topics_deletion_started)
        partitions = [partition for topic in first_time for partition in context.partitions_of(topic)]
        core.partitions.change(partitions, PartitionStatus.OFFLINE)
        core.partitions.change(partitions, PartitionStatus.NON_EXISTENT)
        context.topics_deletion_started.update(first_time)
        # With leader -2: brokers forget the topic before its logs go.
        core.send_update_metadata(partition for topic in sorted(topics) for partition in context.partitions_of(topic))
        self._stop_replicas(topics)

    def _stop_replicas(self, topics: Collection[str]) -> None:
        context, machine = self._core.context, self._core.replicas
        dead: list[PartitionReplica] = []
        stop: list[PartitionReplica] = []
        waiting: set[str] = set()
        for topic in sorted(topics):
            for replica in context.replicas_of_topic(topic):
                if not context.is_replica_online(replica.replica, replica.partition):
                    dead.append(replica)
                    waiting.add(topic)
                elif context.replica_state(replica) is not ReplicaStatus.DELETION_SUCCESSFUL:
                    stop.append(replica)
        machine.change(dead, ReplicaStatus.DELETION_INELIGIBLE)
        machine.change(stop, ReplicaStatus.OFFLINE)
        machine.change(stop, ReplicaStatus.DELETION_STARTED)
        if waiting:
            self.mark_ineligible(waiting, "offline replicas")

    def _complete(self, topic: str) -> None:
        """All replicas are gone: remove the topic from ZooKeeper, the request for it last.

        Wherever this stops, the next controller ends it, for it finds the topic and the request as long as anything is
        there. Kafka deletes the configuration after the topic, and it stays for good if it stops in between.
        """
        core, context = self._core, self._core.context
        self._stop_watching_topic(topic)
        core.replicas.change(
            context.replicas_in_state(topic, ReplicaStatus.DELETION_SUCCESSFUL), ReplicaStatus.NON_EXISTENT
        )
        core.zk.delete_topic_config(topic, core.fence)
        core.zk.delete_topic_tree(topic, core.fence)
        core.zk.delete_topic_markers([topic], core.fence)
        context.remove_topic(topic)
        logger.info("Deletion of topic %s successfully completed", topic)
