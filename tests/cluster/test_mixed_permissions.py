"""ACLs and quotas in a cluster of both kinds: what is set through one broker is in force on the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.dev.polling import wait_until
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryDataRequest, OpData
from network.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from network.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from network.protocol.messages.metadata import MetadataRequest
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster, running_cluster
from tests.support.secured import SETTINGS, allow_the_broker, connect_from

IN_FORCE_MS = 1_000
FROM = "127.0.8.1"
TOPIC, DESCRIBE, LITERAL, ALLOW, ANY = 2, 8, 3, 3, 1


@pytest.fixture(scope="module")
def cluster(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("mixed-permissions")
    chroot = f"{zookeeper}/{directory.name}"
    allow_the_broker(chroot)
    with running_cluster(["kafka", "odradek"], directory, chroot, SETTINGS) as made:
        wire.create_topic(made, "shared", replication_factor=2)
        yield made


def is_shown(broker: Broker) -> bool:
    """Whether a stranger sees the topic."""
    with connect_from(FROM, broker) as connection:
        topics = connection.call(MetadataRequest(topics=None), 9).topics
    return [topic.name for topic in topics] == ["shared"]


@pytest.mark.parametrize("maker", [0, 1])
def test_acls_of_one_are_enforced_by_the_other(cluster: Cluster, maker: int) -> None:
    broker, other = cluster.brokers[maker], cluster.brokers[1 - maker]
    acl = AclCreation(
        resource_type=TOPIC, resource_name="shared", resource_pattern_type=LITERAL, principal="User:ANONYMOUS",
        host=FROM, operation=DESCRIBE, permission_type=ALLOW,
    )  # fmt: skip
    wanted = DeleteAclsFilter(
        resource_type_filter=TOPIC, resource_name_filter="shared", pattern_type_filter=ANY, principal_filter=None,
        host_filter=FROM, operation=ANY, permission_type=ANY,
    )  # fmt: skip
    assert not is_shown(other)
    assert wire.call(broker, CreateAclsRequest(creations=[acl]), 3).results[0].error_code == 0
    assert wait_until(lambda: is_shown(other), CLOCK, IN_FORCE_MS)
    assert is_shown(broker)
    (removed,) = wire.call(broker, DeleteAclsRequest(filters=[wanted]), 3).filter_results
    assert len(removed.matching_acls) == 1
    assert wait_until(lambda: not is_shown(other), CLOCK, IN_FORCE_MS)
    assert not is_shown(broker)


@pytest.mark.parametrize("maker", [0, 1])
def test_quotas_of_one_are_enforced_by_the_other(cluster: Cluster, maker: int) -> None:
    broker, other = cluster.brokers[maker], cluster.brokers[1 - maker]
    client = f"limited-{maker}"
    entry = EntryDataRequest(
        entity=[EntityData(entity_type="client-id", entity_name=client)],
        ops=[OpData(key="request_percentage", value=0.0001)],
    )
    assert wire.call(broker, AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code == 0

    def is_limited() -> bool:
        with wire.connected(other, client) as connection:
            return bool(connection.call(MetadataRequest(topics=None), 9).throttle_time_ms)

    assert wait_until(is_limited, CLOCK, IN_FORCE_MS)


def test_replication_goes_on_between_brokers_with_an_authorizer(cluster: Cluster) -> None:
    with cluster.client() as client:
        leader = client.topic("shared").partitions[0].leader
    answer = wire.produce(cluster.brokers[leader], "shared", wire.batch([b"x"]), acks=-1)
    assert ErrorCode.of(answer.error_code) is ErrorCode.NONE
