"""Changing topics and configs through ZooKeeper: what the API handlers do. The controller reacts to the watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from controller.replica_placement import assign_replicas
from controller.topic_names import check_collision, check_topic_name
from controller.zk import paths
from controller.zk.client import ZkClient
from controller.zk.ops import Code
from controller.zk.payloads import ReplicaAssignment, TopicZnode
from controller.zk.session import ZkError
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.uuids import new_uuid
from timer.chance import Chance

Assignment = Mapping[int, Sequence[int]]


# Entities that are nothing but their configs.
_REMOVABLE = (
    paths.USER_CONFIG, paths.CLIENT_CONFIG, paths.IP_CONFIG, paths.GROUP_CONFIG, paths.CLIENT_METRICS_CONFIG
)  # fmt: skip


def _accept(_config: Mapping[str, str]) -> None:
    return None


class AdminZkClient:
    """Topics and configs by znode. Errors that a client can cause are `ApiError`s with Kafka's codes."""

    def __init__(
        self,
        client: ZkClient,
        *,
        chance: Chance,
        use_topic_ids: bool = True,
        validate_topic_config: Callable[[Mapping[str, str]], None] = _accept,
    ) -> None:
        """`use_topic_ids` from `inter.broker.protocol.version` 2.8-IV0. The validator raises `ApiError`."""
        self._client = client
        self._chance = chance
        self._use_topic_ids = use_topic_ids
        self._validate_topic_config = validate_topic_config

    # -- topics ------------------------------------------------------------------------------------------------------

    def topic_exists(self, topic: str) -> bool:
        """Whether ZooKeeper has it, which may be before brokers hear of it."""
        return topic in self._client.topic_names()

    def validate_new_topic(self, topic: str, assignment: Assignment, config: Mapping[str, str]) -> None:
        """Everything that `create_topic` checks, without writing. Broker ids are not checked for being alive."""
        check_topic_name(topic)
        if self._client.topic_marked_for_deletion(topic):
            raise ApiError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' is marked for deletion, it will be gone later."
            )
        existing = self._client.topic_names()
        if topic in existing:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")
        check_collision(topic, existing)
        _check_assignment(assignment)
        self._validate_topic_config(config)

    def create_topic(self, topic: str, assignment: Assignment, config: Mapping[str, str] | None = None) -> bytes | None:
        """Create a topic with this assignment (partition to brokers, preferred leader first); returns its id.

        The configs are written before the topic, so a broker that hears of the topic finds them.
        """
        overrides = dict(config or {})
        self.validate_new_topic(topic, assignment, overrides)
        topic_id = new_uuid(self._chance) if self._use_topic_ids else None
        self._client.set_config(f"{paths.TOPIC_CONFIG}/{topic}", overrides)
        try:
            self._client.create_topic(topic, topic_id, assignment)
        except ZkError as error:
            if error.code is Code.NODE_EXISTS:
                raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.") from error
            raise
        return topic_id

    def add_partitions(
        self,
        topic: str,
        count: int,
        brokers: Mapping[int, str | None],
        new_assignment: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
    ) -> dict[int, list[int]]:
        """Grow a topic to `count` partitions; returns the replicas of the new ones.

        `brokers` are the live brokers with their racks. Without `new_assignment` the new partitions are spread on
        from where partition 0 started.
        """
        znode = self._client.topic(topic)
        if znode is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
        if any(entry.being_reassigned for entry in znode.assignment.values()):
            raise ApiError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic '{topic}'.",
            )
        current = len(znode.assignment)
        if count == current:
            raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partitions.")
        if count < current:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic currently has {current} partitions, which is higher than the requested {count}.",
            )
        first = znode.assignment.get(0)
        if first is None:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Partition 0 of topic '{topic}' is missing in ZooKeeper.")
        added = count - current
        if new_assignment is None:
            added_replicas = self._spread(first.replicas, brokers, added, current)
        else:
            added_replicas = _check_added(new_assignment, added, current, len(first.replicas), brokers)
        if not validate_only:
            grown = dict(znode.assignment)
            grown.update({number: ReplicaAssignment(tuple(ids)) for number, ids in added_replicas.items()})
            self._client.set_topic(topic, TopicZnode(znode.topic_id, grown))
        return added_replicas

    def delete_topic(self, topic: str) -> None:
        """Ask the controller to delete a topic; asking again is no error."""
        if not self._client.topic_exists(topic):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' to delete does not exist.")
        self._client.create_delete_topic(topic)

    def _spread(
        self, first_replicas: Sequence[int], brokers: Mapping[int, str | None], added: int, current: int
    ) -> dict[int, list[int]]:
        ids = sorted(brokers)
        start = next((index for index, broker in enumerate(ids) if broker >= first_replicas[0]), 0)
        return assign_replicas(
            brokers,
            added,
            len(first_replicas),
            chance=self._chance,
            fixed_start_index=start,
            first_partition=current,
        )

    # -- configs -----------------------------------------------------------------------------------------------------

    def change_configs(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Replace all overrides of an entity such as `topics/t`, `brokers/<default>`, `users/alice/clients/app`.

        All brokers are notified. An empty config of what is nothing but its config removes the znode.
        """
        entity_type = entity_path.partition("/")[0]
        if entity_type == paths.TOPIC_CONFIG:
            topic = entity_path.partition("/")[2]
            if not self._client.topic_exists(topic):
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
            self._validate_topic_config(config)
        is_removable = entity_type in _REMOVABLE
        if config or not is_removable or not self._remove_empty(entity_path):
            self._client.set_config(entity_path, config)
        self._client.create_config_change(entity_path)

    def _remove_empty(self, entity_path: str) -> bool:
        """Delete the znode of an entity without config, with parents that are then empty too.

        Returns False if it has to stay because something is below it.
        """
        if self._client.children(paths.config_entity(entity_path), watch=False):
            return False
        removable = entity_path
        parts = entity_path.split("/")
        if len(parts) == 4:
            user, clients = "/".join(parts[:2]), "/".join(parts[:3])
            if self._client.children(paths.config_entity(clients), watch=False) == [parts[3]]:
                removable = clients
                only_clients = self._client.children(paths.config_entity(user), watch=False) == ["clients"]
                if only_clients and not self._client.config(user):
                    removable = user
        self._client.delete_config(removable)
        return True


def _check_assignment(assignment: Assignment) -> None:
    def refuse(message: str) -> ApiError:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

    if not assignment:
        raise refuse("An assignment needs at least one partition.")
    sizes = {len(replicas) for replicas in assignment.values()}
    if len(sizes) != 1 or sizes == {0}:
        raise refuse("All partitions should have the same number of replicas, and at least one.")
    for partition, replicas in assignment.items():
        if len(set(replicas)) != len(replicas):
            raise refuse(f"Duplicate replica assignment found for partition {partition}: {list(replicas)}")
        if any(broker < 0 for broker in replicas):
            raise refuse(f"Negative broker id in the assignment of partition {partition}: {list(replicas)}")
    if set(assignment) != set(range(len(assignment))):
        raise refuse("partitions should be a consecutive 0-based integer sequence")


def _check_added(
    new_assignment: Sequence[Sequence[int]], added: int, current: int, factor: int, brokers: Mapping[int, str | None]
) -> dict[int, list[int]]:
    def refuse(message: str) -> ApiError:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

    if len(new_assignment) != added:
        raise refuse(f"Increasing the number of partitions by {added} but {len(new_assignment)} assignments provided.")
    result: dict[int, list[int]] = {}
    for number, replicas in enumerate(new_assignment, start=current):
        unknown = sorted(set(replicas) - set(brokers))
        if unknown:
            raise refuse(f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
        if len(set(replicas)) != len(replicas):
            named = ", ".join(map(str, replicas))
            raise refuse(f"Duplicate brokers not allowed in replica assignment: {named} for partition id {number}.")
        if len(replicas) != factor:
            raise refuse(f"Inconsistent replication factor for partition {number}: expected {factor}, {list(replicas)}")
        result[number] = list(replicas)
    return result
