"""Topics, partition states, deletion markers, and the znodes by which others ask the controller for work."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from controller.zk import paths
from controller.zk.access import UNFENCED, ZnodeAccess, expect
from controller.zk.ops import Code, Create, Delete, Response, SetData
from controller.zk.payloads import (
    PartitionState,
    PayloadError,
    ReplicaAssignment,
    TopicZnode,
    decode_partition_state,
    decode_partitions,
    decode_reassignment,
    decode_topic,
    encode_partition_state,
    encode_partitions,
    encode_reassignment,
    encode_topic,
)
from controller.zk.session import ZkError
from log.topic_partition import TopicPartition
from timer.sharing import shared

logger = logging.getLogger(__name__)


class TopicZnodes(ZnodeAccess):
    """Typed access to `/brokers/topics`, `/admin` and the partition states."""

    # -- topics ------------------------------------------------------------------------------------------------------

    def topic_names(self) -> set[str]:
        """All topics. Arms the child watch if a handler is registered."""
        return set(self.children(paths.TOPICS))

    def topic_exists(self, topic: str) -> bool:
        return self.exists(paths.topic(topic))

    def topic(self, topic: str) -> TopicZnode | None:
        found = self.read(paths.topic(topic))
        return None if found is None else decode_topic(topic, found[0])

    def topics(self, names: Iterable[str]) -> dict[str, TopicZnode]:
        """Those of `names` that exist. Arms the watch of each topic with a registered data handler."""
        ordered = list(names)
        found = self.read_all([paths.topic(name) for name in ordered])
        return {
            name: decode_topic(name, item[0]) for name, item in zip(ordered, found, strict=True) if item is not None
        }

    def create_topic(self, topic: str, topic_id: bytes | None, assignment: Mapping[int, Sequence[int]]) -> None:
        """Create the topic's znode. Raises `ZkError` with `NODE_EXISTS`."""
        znode = TopicZnode(
            topic_id, {partition: ReplicaAssignment(tuple(replicas)) for partition, replicas in assignment.items()}
        )
        self.create_recursive(paths.topic(topic), encode_topic(znode))

    def set_topic(self, topic: str, znode: TopicZnode, fence: int = UNFENCED) -> None:
        """Replace a topic's id and assignment; anything that must survive is in `znode`."""
        expect(self.fenced([SetData(paths.topic(topic), encode_topic(znode))], fence)[0], paths.topic(topic))

    def set_topics(self, topics: Mapping[str, TopicZnode], fence: int) -> dict[str, Code]:
        """`set_topic` for many, pipelined; the code of each."""
        requests = [SetData(paths.topic(name), encode_topic(znode)) for name, znode in topics.items()]
        return {name: answer.code for name, answer in zip(topics, self.fenced(requests, fence), strict=True)}

    def delete_topic_tree(self, topic: str, fence: int) -> None:
        """Delete `/brokers/topics/T` with all its partitions: states, partitions, their parent, the topic."""
        partitions = [TopicPartition(topic, number) for number in sorted(self.partition_numbers(topic))]
        self.fenced([Delete(paths.partition_state(partition)) for partition in partitions], fence)
        self.fenced([Delete(paths.topic_partition(partition)) for partition in partitions], fence)
        # Whatever the two batches did not know of, and the rest of the tree.
        self.delete_recursive(paths.topic(topic), fence)

    def delete_topic_config(self, topic: str, fence: int) -> None:
        self.fenced([Delete(paths.config_entity(f"{paths.TOPIC_CONFIG}/{topic}"))], fence)

    # -- partitions --------------------------------------------------------------------------------------------------

    def partition_numbers(self, topic: str) -> set[int]:
        """The partitions that have been created below `/brokers/topics/T/partitions`."""
        return {int(name) for name in self.children(paths.topic_partitions(topic), watch=False)}

    def partition_states(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """States of those partitions that have a readable one; an unreadable one is logged and left out."""
        return {partition: state for partition, (state, _) in self.partition_states_written(partitions).items()}

    def partition_states_written(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, tuple[PartitionState, int]]:
        """The same, each with the zxid of its last write."""
        found = self.read_all([paths.partition_state(partition) for partition in partitions])
        states: dict[TopicPartition, tuple[PartitionState, int]] = {}
        for partition, item in zip(partitions, found, strict=True):
            if item is None:
                continue
            try:
                state = decode_partition_state(item[0], item[1].version)
            except PayloadError:
                logger.exception("The state of partition %s cannot be read", partition)
                continue
            if state is not None:
                states[partition] = state, item[1].mzxid
        return states

    def create_partition_states(
        self, states: Mapping[TopicPartition, PartitionState], fence: int
    ) -> dict[TopicPartition, Code]:
        """Create the partition znodes and their states; the code of each state create."""
        topics = dict.fromkeys(partition.topic for partition in states)
        self.fenced([Create(paths.topic_partitions(topic)) for topic in topics], fence)
        self.fenced([Create(paths.topic_partition(partition)) for partition in states], fence)
        requests = [
            Create(paths.partition_state(partition), encode_partition_state(state))
            for partition, state in states.items()
        ]
        return {item: answer.code for item, answer in zip(states, self.fenced(requests, fence), strict=True)}

    def set_partition_states(
        self, states: Mapping[TopicPartition, PartitionState], fence: int
    ) -> dict[TopicPartition, PartitionState | Code]:
        """Write states conditionally: `partition_epoch` is the expected version.

        Each result is the state with its new partition epoch, or the code (`BAD_VERSION` if someone else wrote).
        """
        requests = [
            SetData(paths.partition_state(partition), encode_partition_state(state), state.partition_epoch)
            for partition, state in states.items()
        ]
        answers = self.fenced(requests, fence)
        return {
            partition: _written(state, answer)
            for (partition, state), answer in zip(states.items(), answers, strict=True)
        }

    def set_partition_state_as_leader(self, partition: TopicPartition, state: PartitionState) -> PartitionState | None:
        """A leader's own ISR write (`inter.broker.protocol.version` below 2.7-IV2): the new state or None if refused.

        A write whose answer was lost is recognised by its content.
        """
        path = paths.partition_state(partition)
        response = self._one(SetData(path, encode_partition_state(state), state.partition_epoch))
        written = _written(state, response)
        if isinstance(written, PartitionState):
            return written
        if written is Code.NO_NODE:
            return None
        if written is not Code.BAD_VERSION:
            raise ZkError(written, path)
        found = self.partition_states([partition]).get(partition)
        if found is not None and _same_content(found, state):
            return found
        return None

    # -- deletion ----------------------------------------------------------------------------------------------------

    def create_delete_topic(self, topic: str) -> None:
        """Ask for the deletion of a topic. Asking again is no error."""
        self.create_recursive(paths.delete_topic(topic), None, fail_if_exists=False)

    def topics_to_delete(self) -> set[str]:
        """Topics queued for deletion. Arms the child watch if a handler is registered."""
        return set(self.children(paths.DELETE_TOPICS))

    def topic_marked_for_deletion(self, topic: str) -> bool:
        return self.exists(paths.delete_topic(topic))

    def delete_topic_markers(self, topics: Iterable[str], fence: int) -> None:
        self.fenced([Delete(paths.delete_topic(topic)) for topic in topics], fence)

    # -- reassignment and preferred election -------------------------------------------------------------------------

    def reassign_partitions(self) -> dict[TopicPartition, tuple[int, ...]]:
        """`/admin/reassign_partitions`; empty if there is none. Raises `PayloadError` if it is invalid."""
        found = self.read(paths.REASSIGN_PARTITIONS)
        return {} if found is None else decode_reassignment(found[0])

    def set_reassign_partitions(self, partitions: Mapping[TopicPartition, Sequence[int]], fence: int) -> None:
        """Replace `/admin/reassign_partitions`, creating it if it is missing."""
        data = encode_reassignment(partitions)
        response = self.fenced([SetData(paths.REASSIGN_PARTITIONS, data)], fence)[0]
        if response.code is Code.NO_NODE:
            response = self.fenced([Create(paths.REASSIGN_PARTITIONS, data)], fence)[0]
        expect(response, paths.REASSIGN_PARTITIONS)

    def delete_reassign_partitions(self, fence: int) -> None:
        self.fenced([Delete(paths.REASSIGN_PARTITIONS)], fence)

    def preferred_election(self) -> list[TopicPartition]:
        """Partitions in `/admin/preferred_replica_election`; empty if there is none."""
        found = self.read(paths.PREFERRED_ELECTION)
        return [] if found is None else decode_partitions(found[0])

    def create_preferred_election(self, partitions: Sequence[TopicPartition]) -> None:
        self.create_recursive(paths.PREFERRED_ELECTION, encode_partitions(partitions))

    def delete_preferred_election(self, fence: int) -> None:
        self.fenced([Delete(paths.PREFERRED_ELECTION)], fence)


def _written(state: PartitionState, answer: Response) -> PartitionState | Code:
    if not answer.ok:
        return answer.code
    assert answer.stat is not None
    version = answer.stat.version
    return shared(
        PartitionState(
            state.leader, state.leader_epoch, state.isr, state.controller_epoch, state.recovery_state, version
        )
    )


def _same_content(one: PartitionState, other: PartitionState) -> bool:
    def content(state: PartitionState) -> tuple[object, ...]:
        return state.leader, state.leader_epoch, state.isr, state.controller_epoch, state.recovery_state

    return content(one) == content(other)
