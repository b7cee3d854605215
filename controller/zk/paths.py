"""Kafka's znode paths, relative to the chroot of `zookeeper.connect`."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_plus

from log.topic_partition import TopicPartition

BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE_ID = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
FEATURE = "/feature"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"

DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"

ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = "isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "log_dir_event_"

CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "config_change_"
# Apart from the others: brokers of Apache Kafka log an error for each notification of a type that they do not know.
GROUP_CONFIG_CHANGES = "/config/group_changes"
CLIENT_METRICS_CONFIG_CHANGES = "/config/client_metrics_changes"

ACL = "/kafka-acl"
ACL_CHANGES = "/kafka-acl-changes"
EXTENDED_ACL = "/kafka-acl-extended"
EXTENDED_ACL_CHANGES = "/kafka-acl-extended-changes"
ACL_CHANGE_PREFIX = "acl_changes_"

DELEGATION_TOKENS = "/delegation_token/tokens"
DELEGATION_TOKEN_CHANGES = "/delegation_token/token_changes"
DELEGATION_TOKEN_CHANGE_PREFIX = "token_change_"

# What every broker makes sure of when it starts, in this order (null data, parents included).
PERSISTENT_AT_STARTUP = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE_ID,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)

DEFAULT_ENTITY = "<default>"

TOPIC_CONFIG = "topics"
CLIENT_CONFIG = "clients"
USER_CONFIG = "users"
IP_CONFIG = "ips"
GROUP_CONFIG = "groups"
CLIENT_METRICS_CONFIG = "client-metrics"

_CHANGES_OF = {GROUP_CONFIG: GROUP_CONFIG_CHANGES, CLIENT_METRICS_CONFIG: CLIENT_METRICS_CONFIG_CHANGES}


def broker_id(broker: int) -> str:
    return f"{BROKER_IDS}/{broker}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def topic_partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def topic_partition(partition: TopicPartition) -> str:
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}"


def partition_state(partition: TopicPartition) -> str:
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}/state"


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def config_entity(entity_path: str) -> str:
    """The config znode of an entity path such as `topics/t` or `users/alice/clients/app` (names sanitized)."""
    return f"{CONFIG}/{entity_path}"


def config_changes(entity_type: str) -> str:
    """Where changes of entities of a type are notified."""
    return _CHANGES_OF.get(entity_type, CONFIG_CHANGES)


def group_config(group: str) -> str:
    """The entity path of a group."""
    return f"{GROUP_CONFIG}/{_znode_name(group)}"


def client_metrics_config(subscription: str) -> str:
    """The entity path of a subscription to client metrics."""
    return f"{CLIENT_METRICS_CONFIG}/{_znode_name(subscription)}"


def _znode_name(text: str) -> str:
    """ZooKeeper takes no name of dots only."""
    name = sanitize(text)
    return name if name.strip(".") else name.replace(".", "%2E")


def consumer_offset(group: str, partition: TopicPartition) -> str:
    """Where OffsetCommit version 0 puts an offset (decimal text)."""
    return f"/consumers/{group}/offsets/{partition.topic}/{partition.partition}"


_SEQUENCE = re.compile(r"-?[0-9]{1,20}")


def sequence_of(child: str, prefix: str) -> int | None:
    """The number of a sequential child, or None for a child that is not one of these."""
    digits = child.removeprefix(prefix)
    return int(digits) if child.startswith(prefix) and _SEQUENCE.fullmatch(digits) else None


def sanitize(name: str) -> str:
    """A user, client id or IP as it stands in a path: URL-encoded UTF-8, only letters, digits, `-_.` unescaped."""
    return quote(name, safe="").replace("~", "%7E")


def desanitize(name: str) -> str:
    """The inverse of `sanitize`; a literal `+` reads as a space."""
    return unquote_plus(name)


def can_hold(name: str) -> bool:
    """Whether ZooKeeper takes a path that ends in this name: no empty or relative step, no control characters."""
    relative = any(step in ("", ".", "..") for step in name.split("/"))
    return not relative and not any(
        char <= "\x1f" or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\uf8ff" or char >= "\ufff0" for char in name
    )
