"""Requests that succeed and requests that fail, of every API whose answers have a place for an error message."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from network.protocol.api import ApiKey
from network.protocol.message import Request
from network.protocol.messages import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_configs,
    describe_producers,
    describe_user_scram_credentials,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    produce,
    update_features,
)
from network.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from network.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from network.protocol.messages.describe_cluster import DescribeClusterRequest
from network.protocol.messages.find_coordinator import FindCoordinatorRequest
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.support import wire

EXISTING, EMPTY, COMPACTED, LIMITED = "existing", "empty", "compacted", "limited"
"""Topics that the cases take for granted: the third with `cleanup.policy=compact`, the last with small batches."""
TOPIC, BROKER, LOGGER, CLIENT_METRICS, NO_SUCH_TYPE = 2, 4, 8, 16, 99
WAIT_MS = 15_000


class Case(NamedTuple):
    api: ApiKey
    name: str
    make: Callable[[int], Request]
    """The request of a version; what it creates has a name of that version's own."""
    first: int = 0
    last: int = 99
    elsewhere: bool = False
    """Sent to a broker that is not the controller."""


CASES: list[Case] = []


def case(
    api: ApiKey, name: str, first: int = 0, last: int = 99, *, elsewhere: bool = False
) -> Callable[[Callable[[int], Request]], Callable[[int], Request]]:
    """Put what is decorated into the table."""

    def put(make: Callable[[int], Request]) -> Callable[[int], Request]:
        CASES.append(Case(api, name, make, first, last))
        if elsewhere:
            CASES.append(Case(api, f"{name}, elsewhere", make, first, last, elsewhere=True))
        return make

    return put


# ---------------------------------------------------------------------------------------------------------- data path


def _produce(topic: str, records: bytes, partition: int = 0, acks: int = -1) -> Request:
    data = produce.PartitionProduceData(index=partition, records=records)
    topics = [produce.TopicProduceData(name=topic, partition_data=[data])]
    return produce.ProduceRequest(acks=acks, timeout_ms=WAIT_MS, topic_data=topics)


_PRODUCE: dict[str, Callable[[], Request]] = {
    "good": lambda: _produce(EXISTING, bytes(wire.batch([b"v"]))),
    "no such topic": lambda: _produce("missing", bytes(wire.batch([b"v"]))),
    "internal topic": lambda: _produce("__consumer_offsets", bytes(wire.batch([b"v"], keys=[b"k"]))),
    "no such acks": lambda: _produce(EXISTING, bytes(wire.batch([b"v"])), acks=7),
    "bad checksum": lambda: _produce(EXISTING, bytes(wire.batch([b"v"]))[:-1] + b"~"),
    "no key in a compacted topic": lambda: _produce(COMPACTED, bytes(wire.batch([b"v", b"w"]))),
    "too large": lambda: _produce(LIMITED, bytes(wire.batch([b"v" * 2000]))),
    "no records": lambda: _produce(EXISTING, b""),
    "two batches": lambda: _produce(EXISTING, bytes(wire.batch([b"v"])) + bytes(wire.batch([b"w"]))),
}
for _name, _make in _PRODUCE.items():
    case(ApiKey.PRODUCE, _name, first=3)(lambda version, make=_make: make())  # type: ignore[misc]


# ------------------------------------------------------------------------------------------------------- coordinators


@case(ApiKey.FIND_COORDINATOR, "a group", last=3)
def _one(version: int) -> Request:
    return FindCoordinatorRequest(key="group", key_type=0)


@case(ApiKey.FIND_COORDINATOR, "no such type", first=1, last=3)
def _no_type(version: int) -> Request:
    return FindCoordinatorRequest(key="group", key_type=9)


for _type in (0, 1, 2, 9):
    case(ApiKey.FIND_COORDINATOR, f"many of type {_type}", first=4)(
        lambda version, kind=_type: FindCoordinatorRequest(coordinator_keys=["one", "two"], key_type=kind)  # type: ignore[misc]
    )


@case(ApiKey.CONSUMER_GROUP_HEARTBEAT, "not served in ZooKeeper mode", last=0)
def _heartbeat(version: int) -> Request:
    return ConsumerGroupHeartbeatRequest(group_id="group", member_id="member", member_epoch=3)


@case(ApiKey.CONSUMER_GROUP_DESCRIBE, "not served in ZooKeeper mode", last=0)
def _describe_groups(version: int) -> Request:
    return ConsumerGroupDescribeRequest(group_ids=["group", "other"])


# ------------------------------------------------------------------------------------------------------------- topics


def _new(name: str, **options: object) -> create_topics.CreatableTopic:
    return create_topics.CreatableTopic(**{"name": name, "num_partitions": 1, "replication_factor": 1, **options})  # type: ignore[arg-type]


@case(ApiKey.CREATE_TOPICS, "good and bad", elsewhere=True)
def _create(version: int) -> Request:
    config = create_topics.CreatableTopicConfig
    replicas = create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[0])
    gap = create_topics.CreatableReplicaAssignment(partition_index=1, broker_ids=[0])
    topics = [
        _new(f"new-{version}"),
        _new(EXISTING),
        _new(f"twice-{version}"),
        _new(f"twice-{version}"),
        _new("__cluster_metadata"),
        _new("a b"),
        _new("no-partitions", num_partitions=0),
        _new("replicas", replication_factor=9),
        _new("unknown-config", configs=[config(name="no.such", value="1")]),
        _new("bad-config", configs=[config(name="retention.ms", value="soon")]),
        _new("null-config", configs=[config(name="retention.ms", value=None)]),
        _new("both", assignments=[replicas]),
        _new("gap", num_partitions=-1, replication_factor=-1, assignments=[gap]),
    ]
    return create_topics.CreateTopicsRequest(topics=topics, timeout_ms=WAIT_MS)


@case(ApiKey.CREATE_TOPICS, "no time")
def _create_at_once(version: int) -> Request:
    return create_topics.CreateTopicsRequest(topics=[_new(f"at-once-{version}")], timeout_ms=0)


@case(ApiKey.CREATE_TOPICS, "only checked", first=1)
def _check(version: int) -> Request:
    topics = [_new("checked"), _new(EXISTING)]
    return create_topics.CreateTopicsRequest(topics=topics, timeout_ms=WAIT_MS, validate_only=True)


@case(ApiKey.CREATE_PARTITIONS, "good and bad", elsewhere=True)
def _grow(version: int) -> Request:
    def wanted(name: str, count: int, *replicas: list[int]) -> create_partitions.CreatePartitionsTopic:
        given = [create_partitions.CreatePartitionsAssignment(broker_ids=each) for each in replicas]
        return create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=given or None)

    topics = [
        wanted(f"new-{version}", 3),
        wanted(EXISTING, 1),
        wanted("missing", 3),
        wanted("twice", 3),
        wanted("twice", 4),
        wanted(EMPTY, 2),
        wanted(COMPACTED, 2, [9]),
        wanted(LIMITED, 2, [0, 0]),
        wanted("__consumer_offsets", 1),
    ]
    return create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=WAIT_MS)


@case(ApiKey.DELETE_TOPICS, "by name", last=5, elsewhere=True)
def _delete(version: int) -> Request:
    return delete_topics.DeleteTopicsRequest(topic_names=["missing", f"at-once-{version}", "a b"], timeout_ms=WAIT_MS)


@case(ApiKey.DELETE_TOPICS, "by name and id", first=6, elsewhere=True)
def _delete_mixed(version: int) -> Request:
    state = delete_topics.DeleteTopicState
    topics = [state(name="missing"), state(name=f"at-once-{version}"), state(name=None, topic_id=bytes(range(16)))]
    return delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=WAIT_MS)


@case(ApiKey.DELETE_TOPICS, "name with id", first=6)
def _delete_both(version: int) -> Request:
    topics = [delete_topics.DeleteTopicState(name=EXISTING, topic_id=bytes(range(16)))]
    return delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=WAIT_MS)


# --------------------------------------------------------------------------------------------------------- partitions


@case(ApiKey.ELECT_LEADERS, "not needed, not there", elsewhere=True)
def _elect(version: int) -> Request:
    topics = [
        elect_leaders.TopicPartitions(topic=EXISTING, partitions=[0, 9]),
        elect_leaders.TopicPartitions(topic="missing", partitions=[0]),
    ]
    return elect_leaders.ElectLeadersRequest(topic_partitions=topics, timeout_ms=WAIT_MS)


@case(ApiKey.ELECT_LEADERS, "unclean", first=1)
def _elect_unclean(version: int) -> Request:
    topics = [elect_leaders.TopicPartitions(topic=EXISTING, partitions=[0])]
    return elect_leaders.ElectLeadersRequest(election_type=1, topic_partitions=topics, timeout_ms=WAIT_MS)


def _moves(**topics: list[int] | None) -> Request:
    parts, topic = alter_partition_reassignments.ReassignablePartition, alter_partition_reassignments.ReassignableTopic
    wanted = [
        topic(name=name, partitions=[parts(partition_index=0, replicas=replicas)]) for name, replicas in topics.items()
    ]
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=wanted, timeout_ms=WAIT_MS)


@case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "good and bad", elsewhere=True)
def _reassign(version: int) -> Request:
    return _moves(existing=None, missing=[0], empty=[], compacted=[0, 0], limited=[9])


@case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "no such id")
def _reassign_negative(version: int) -> Request:
    return _moves(existing=[-1])


@case(ApiKey.LIST_PARTITION_REASSIGNMENTS, "none", elsewhere=True)
def _list_moves(version: int) -> Request:
    return list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None, timeout_ms=WAIT_MS)


@case(ApiKey.DESCRIBE_PRODUCERS, "good and bad")
def _producers(version: int) -> Request:
    topics = [
        describe_producers.TopicRequest(name=name, partition_indexes=[0]) for name in (COMPACTED, "missing", "a b")
    ]
    return describe_producers.DescribeProducersRequest(topics=topics)


@case(ApiKey.UPDATE_FEATURES, "unknown ones", elsewhere=True)
def _features(version: int) -> Request:
    wanted = [update_features.FeatureUpdateKey(feature=name, max_version_level=1) for name in ("some", "")]
    return update_features.UpdateFeaturesRequest(feature_updates=wanted, timeout_ms=WAIT_MS)


@case(ApiKey.UPDATE_FEATURES, "nothing")
def _no_features(version: int) -> Request:
    return update_features.UpdateFeaturesRequest(timeout_ms=WAIT_MS)


# ------------------------------------------------------------------------------------------------------------ configs


@case(ApiKey.DESCRIBE_CONFIGS, "good and bad")
def _describe(version: int) -> Request:
    resource = describe_configs.DescribeConfigsResource
    asked = [
        (TOPIC, EXISTING), (TOPIC, "missing"), (TOPIC, "a b"), (TOPIC, ""), (BROKER, ""), (BROKER, "77"), (BROKER, "x"),
        (LOGGER, ""), (CLIENT_METRICS, ""), (CLIENT_METRICS, "x"),
    ]  # fmt: skip
    resources = [resource(resource_type=kind, resource_name=name, configuration_keys=["none"]) for kind, name in asked]
    return describe_configs.DescribeConfigsRequest(resources=resources)


@case(ApiKey.DESCRIBE_CONFIGS, "no such type")
def _describe_what(version: int) -> Request:
    resource = describe_configs.DescribeConfigsResource(resource_type=NO_SUCH_TYPE, resource_name="x")
    return describe_configs.DescribeConfigsRequest(resources=[resource])


_SETTINGS: dict[str, tuple[int, str, list[tuple[str, str | None]]]] = {
    "good": (TOPIC, EXISTING, [("retention.ms", "600000")]),
    "no such topic": (TOPIC, "missing", [("retention.ms", "600000")]),
    "no topic": (TOPIC, "", []),
    "unknown key": (TOPIC, EXISTING, [("no.such", "1")]),
    "bad value": (TOPIC, EXISTING, [("retention.ms", "soon")]),
    "null": (TOPIC, EXISTING, [("retention.ms", None)]),
    "twice the same key": (TOPIC, EXISTING, [("retention.ms", "1"), ("retention.ms", "2")]),
    "another broker": (BROKER, "77", []),
    "no broker id": (BROKER, "x", []),
    "read only": (BROKER, "0", [("broker.id", "5")]),
    "client metrics": (CLIENT_METRICS, "x", []),
    "no such type": (NO_SUCH_TYPE, "x", []),
}


def _alter(kind: int, name: str, entries: list[tuple[str, str | None]]) -> Request:
    configs = [alter_configs.AlterableConfig(name=key, value=value) for key, value in entries]
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return alter_configs.AlterConfigsRequest(resources=[resource])


def _alter_some(kind: int, name: str, entries: list[tuple[str, str | None]]) -> Request:
    configs = [incremental_alter_configs.AlterableConfig(name=key, value=value) for key, value in entries]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])


for _name, _setting in _SETTINGS.items():
    case(ApiKey.ALTER_CONFIGS, _name)(lambda version, setting=_setting: _alter(*setting))  # type: ignore[misc]
    case(ApiKey.INCREMENTAL_ALTER_CONFIGS, _name)(lambda version, setting=_setting: _alter_some(*setting))  # type: ignore[misc]


# ----------------------------------------------------------------------------------------------------------- security

_FILTER = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}


@case(ApiKey.DESCRIBE_ACLS, "no authorizer")
def _acls(version: int) -> Request:
    return describe_acls.DescribeAclsRequest(resource_type_filter=2, resource_name_filter=None, **_FILTER)  # type: ignore[arg-type]


@case(ApiKey.CREATE_ACLS, "no authorizer")
def _new_acl(version: int) -> Request:
    acl = create_acls.AclCreation(
        resource_type=2, resource_name="t", principal="User:x", host="*", operation=3, permission_type=3
    )
    return create_acls.CreateAclsRequest(creations=[acl])


@case(ApiKey.DELETE_ACLS, "no authorizer")
def _no_acl(version: int) -> Request:
    wanted = delete_acls.DeleteAclsFilter(resource_type_filter=2, resource_name_filter=None, **_FILTER)  # type: ignore[arg-type]
    return delete_acls.DeleteAclsRequest(filters=[wanted])


@case(ApiKey.SASL_AUTHENTICATE, "on PLAINTEXT")
def _authenticate(version: int) -> Request:
    return SaslAuthenticateRequest(auth_bytes=b"x")


for _match in ("user", "team", ""):
    _component = describe_client_quotas.ComponentData(entity_type=_match, match_type=2, match=None)
    case(ApiKey.DESCRIBE_CLIENT_QUOTAS, f"filter {_match!r}")(
        lambda version, component=_component: describe_client_quotas.DescribeClientQuotasRequest(components=[component])  # type: ignore[misc]
    )


@case(ApiKey.ALTER_CLIENT_QUOTAS, "an entity that does not exist")
def _quotas(version: int) -> Request:
    entity = alter_client_quotas.EntityData(entity_type="team", entity_name="x")
    return alter_client_quotas.AlterClientQuotasRequest(entries=[alter_client_quotas.EntryDataRequest(entity=[entity])])


for _users in ([], ["nobody"], ["twice", "twice"], [""]):
    case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, f"of {_users}")(
        lambda version, users=_users: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(  # type: ignore[misc]
            users=[describe_user_scram_credentials.UserName(name=user) for user in users]
        )
    )


@case(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "of a user who has none", elsewhere=True)
def _credentials(version: int) -> Request:
    deletion = alter_user_scram_credentials.ScramCredentialDeletion(name="nobody", mechanism=1)
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=[deletion])


# ------------------------------------------------------------------------------------------------------------ cluster

for _kind in (1, 2, 9):
    case(ApiKey.DESCRIBE_CLUSTER, f"endpoints of type {_kind}", first=0 if _kind == 1 else 1)(
        lambda version, kind=_kind: DescribeClusterRequest(endpoint_type=kind)  # type: ignore[misc]
    )
