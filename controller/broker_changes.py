"""Brokers that come, die, bounce, change their registration, shut down, or lose a log directory."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

from controller.core import ControllerCore
from controller.event_manager import ControllerState
from controller.reassignment import Reassignment
from controller.states import PartitionReplica, PartitionStatus, ReplicaStatus
from controller.topic_deletion import TopicDeletion
from controller.zk import paths
from controller.zk.access import ControllerMovedError
from controller.zk.payloads import BrokerInfo, PartitionState, PayloadError
from controller.zk.session import DataHandler
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.leader_and_isr import LeaderAndIsrResponse

logger = logging.getLogger(__name__)

UNKNOWN_BROKER_EPOCH = -1


class BrokerChanges:
    """Runs on the event thread, except the watch handlers, which enqueue."""

    def __init__(self, core: ControllerCore, deletion: TopicDeletion, reassignment: Reassignment) -> None:
        self._core = core
        self._deletion = deletion
        self._reassignment = reassignment
        self._watched: set[int] = set()

    # -- watches of the registrations ----------------------------------------------------------------------------------

    def watch(self, brokers: Iterable[int]) -> None:
        """Watch registrations for changed data; the `exists` arms the watch."""
        for broker in sorted(brokers):
            self._watched.add(broker)

            def changed(broker: int = broker) -> None:
                self._core.enqueue(
                    f"BrokerModifications({broker})",
                    ControllerState.BROKER_CHANGE,
                    lambda: self.registration_changed(broker),
                )

            self._core.zk.session.register_data_handler(DataHandler(paths.broker_id(broker), on_changed=changed))
            self._core.zk.exists(paths.broker_id(broker))

    def unwatch(self, brokers: Iterable[int]) -> None:
        for broker in brokers:
            self._watched.discard(broker)
            self._core.zk.session.unregister_data_handler(paths.broker_id(broker))

    def stop_watching(self) -> None:
        self.unwatch(list(self._watched))

    # -- reading -------------------------------------------------------------------------------------------------------

    def read_all(self) -> dict[int, BrokerInfo]:
        """All usable registrations by id: readable, and supporting every finalized feature at its level."""
        usable: dict[int, BrokerInfo] = {}
        for broker_id, broker in self._core.zk.brokers(skip_unreadable=True).items():
            missing = [
                name
                for name, level in self._core.context.finalized_features.items()
                if not broker.features.get(name, {}).get("min_version", 1)
                <= level
                <= broker.features.get(name, {}).get("max_version", 0)
            ]
            if missing:
                logger.error("Ignoring broker %d: it does not support finalized features %s", broker_id, missing)
            else:
                usable[broker_id] = broker
        return usable

    # -- events --------------------------------------------------------------------------------------------------------

    def brokers_changed(self) -> None:
        """Registrations came or went below `/brokers/ids`."""
        core, context = self._core, self._core.context
        if context.epoch == 0:
            return
        current = self.read_all()
        new = sorted(current.keys() - context.brokers.keys())
        dead = sorted(context.brokers.keys() - current.keys())
        bounced = sorted(
            broker
            for broker in current.keys() & context.brokers.keys()
            if current[broker].epoch > context.brokers[broker].epoch
        )
        logger.info("Newly added brokers: %s, deleted brokers: %s, bounced brokers: %s", new, dead, bounced)
        for broker in new:
            core.channels.add_broker(current[broker])
        for broker in bounced:
            core.channels.remove_broker(broker)
            core.channels.add_broker(current[broker])
        for broker in dead:
            core.channels.remove_broker(broker)
        if new:
            context.brokers.update({broker: current[broker] for broker in new})
            self._started(new)
        if bounced:
            self._forget(bounced)
            self._failed(bounced)
            context.brokers.update({broker: current[broker] for broker in bounced})
            self._started(bounced)
        if dead:
            self._forget(dead)
            self._failed(dead)

    def registration_changed(self, broker_id: int) -> None:
        """Endpoints or features of a broker changed: everybody has to know."""
        core, context = self._core, self._core.context
        if context.epoch == 0:
            return
        try:
            changed = core.zk.broker(broker_id)
        except PayloadError:
            logger.exception("Ignoring the changed registration of broker %d", broker_id)
            return
        known = context.brokers.get(broker_id)
        if changed is None or known is None:
            return
        if changed.endpoints != known.endpoints or changed.features != known.features:
            logger.info("Broker %d is now %s", broker_id, changed)
            context.brokers[broker_id] = changed
            core.send_update_metadata()

    def log_dirs_failed(self) -> None:
        """Brokers reported a failed log directory: ask them, by LeaderAndIsr, which replicas are gone."""
        core, context = self._core, self._core.context
        if context.epoch == 0:
            return
        names = core.zk.log_dir_event_names()
        try:
            brokers = core.zk.log_dir_event_brokers(names)
            if brokers:
                logger.info("Log directory failed on brokers %s", sorted(brokers))
                core.replicas.change(context.replicas_on(brokers), ReplicaStatus.ONLINE)
        finally:
            core.zk.delete_log_dir_events(names, core.fence)

    def leader_and_isr_answered(self, broker: int, response: LeaderAndIsrResponse) -> None:
        """Partitions answered with KAFKA_STORAGE_ERROR are on a failed directory of that broker."""
        context = self._core.context
        if context.epoch == 0:
            return
        if response.error_code != ErrorCode.NONE:
            logger.error("Broker %d refused LeaderAndIsr: %s", broker, ErrorCode.of(response.error_code).name)
            return
        before = context.offline_dirs.get(broker, set())
        now = set(before)
        for partition, code in self._partition_errors(response):
            if code == ErrorCode.KAFKA_STORAGE_ERROR:
                now.add(partition)
            elif code == ErrorCode.NONE:
                now.discard(partition)
        if now or before:
            context.offline_dirs[broker] = now
        newly = sorted(now - before)
        if newly:
            logger.warning("Replicas on broker %d are offline: %s", broker, [str(item) for item in newly])
            self._replicas_offline([PartitionReplica(partition, broker) for partition in newly])

    def controlled_shutdown(self, broker: int, broker_epoch: int) -> list[TopicPartition]:
        """Move leadership away from a broker that wants to stop; returns what it still leads.

        Raises `ControllerMovedError` if this is not the controller, and `ApiError`.
        """
        core, context = self._core, self._core.context
        if context.epoch == 0:
            raise ControllerMovedError("this broker is not the controller")
        if broker_epoch != UNKNOWN_BROKER_EPOCH:
            registered = context.brokers.get(broker)
            if registered is None:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Broker {broker} is not registered")
            if broker_epoch < registered.epoch:
                raise ApiError(
                    ErrorCode.STALE_BROKER_EPOCH,
                    f"Broker epoch {broker_epoch} is older than the registered {registered.epoch}",
                )
        if broker not in context.brokers:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker} does not exist.")
        logger.info("Shutting down broker %d", broker)
        context.shutting_down.add(broker)
        led, followed = self._replicated_partitions(broker)
        core.partitions.change(led, PartitionStatus.ONLINE, core.partitions.controlled_shutdown_rule())
        with core.batch as batch:
            for partition in followed:
                batch.add_stop_replica([broker], partition, delete=False)
        core.replicas.change([PartitionReplica(partition, broker) for partition in followed], ReplicaStatus.OFFLINE)
        return self._replicated_partitions(broker)[0]

    # -- consequences --------------------------------------------------------------------------------------------------

    def _replicated_partitions(self, broker: int) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Partitions with other replicas too, on this broker: those it leads, those it follows."""
        context = self._core.context
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        for partition in sorted(context.by_broker.get(broker, ())):
            state = context.leadership.get(partition)
            replicated = len(context.replicas(partition)) > 1
            if state is None or not replicated or context.is_queued_for_deletion(partition.topic):
                continue
            (led if state.leader == broker else followed).append(partition)
        return led, followed

    def _forget(self, brokers: Collection[int]) -> None:
        for broker in brokers:
            self._core.context.brokers.pop(broker, None)

    def _started(self, brokers: Sequence[int]) -> None:
        """Brokers arrived: tell everyone of them, and them of everything; then their replicas come online."""
        core, context = self._core, self._core.context
        logger.info("New broker startup callback for %s", list(brokers))
        for broker in brokers:
            context.offline_dirs.pop(broker, None)
        arrived = set(brokers)
        core.send_update_metadata(brokers=[item for item in context.registered_ids if item not in arrived])
        core.send_update_metadata(context.partitions_with_leaders(), brokers)
        replicas = context.replicas_on(brokers)
        core.replicas.change(replicas, ReplicaStatus.ONLINE)
        core.partitions.trigger_online()
        self._reassignment.resume(lambda _, assignment: not arrived.isdisjoint(assignment.target))
        waiting = {item.partition.topic for item in replicas} & context.topics_to_delete
        if waiting:
            logger.info("Some replicas of topics %s, which are being deleted, came back", sorted(waiting))
            self._deletion.resume_for(waiting)
        self.watch(brokers)

    def _failed(self, brokers: Sequence[int]) -> None:
        context = self._core.context
        logger.info("Broker failure callback for %s", list(brokers))
        for broker in brokers:
            context.offline_dirs.pop(broker, None)
            context.shutting_down.discard(broker)
        self._replicas_offline(context.replicas_on(brokers))
        self.unwatch(brokers)

    def _replicas_offline(self, replicas: Sequence[PartitionReplica]) -> None:
        """Elect new leaders first, then take the replicas out of the ISRs."""
        core, context = self._core, self._core.context
        deleting = [item for item in replicas if context.is_queued_for_deletion(item.partition.topic)]
        kept = [item for item in replicas if not context.is_queued_for_deletion(item.partition.topic)]
        core.partitions.change(context.partitions_with_offline_leader(), PartitionStatus.OFFLINE)
        elected = core.partitions.trigger_online()
        core.replicas.change(kept, ReplicaStatus.OFFLINE)
        if deleting:
            self._deletion.fail_replicas(deleting)
        if not kept and not any(isinstance(item, PartitionState) for item in elected.values()):
            # Nothing else carried the new broker list to everyone.
            core.send_update_metadata()

    def _partition_errors(self, response: LeaderAndIsrResponse) -> Iterable[tuple[TopicPartition, int]]:
        for error in response.partition_errors:
            yield TopicPartition(error.topic_name, error.partition_index), error.error_code
        for topic in response.topics:
            name = self._core.context.topic_names.get(topic.topic_id)
            if name is not None:
                for error in topic.partition_errors:
                    yield TopicPartition(name, error.partition_index), error.error_code
