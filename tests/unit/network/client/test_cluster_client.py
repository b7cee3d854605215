"""The cluster client against servers that speak the protocol and keep moving things about."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from network.client.cluster_client import ClusterClient, ClusterUnavailable, parse_bootstrap
from network.client.connection_pool import UnsupportedVersion, choose_version
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from network.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from network.protocol.messages.find_coordinator import FindCoordinatorResponse
from network.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from network.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from network.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from network.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from network.server.request import Request
from network.server.socket_server import SocketServer
from tests.support.sockets import Servers, produce, wait_until

VERSIONS = {0: (3, 9), 3: (0, 12), 10: (0, 4), 12: (0, 4), 16: (0, 5), 18: (0, 3), 19: (2, 7)}


class Cluster:
    """Two brokers with one topic of one partition; every role can be moved."""

    def __init__(self, servers: Servers) -> None:
        self.leader = self.controller = self.coordinator = 0
        self.requests: list[tuple[int, str, int]] = []  # broker, API, version
        self.silent = False
        self.hanging: set[int] = set()
        self.unheard = 0  # how many more times a broker answers that it does not know the topic
        self.servers: list[SocketServer] = [servers.start(self.handler(number)) for number in (0, 1)]
        self.ports = [each.bound_port("PLAINTEXT") for each in self.servers]
        self.clock = servers.clock

    def client(self, **options: Any) -> ClusterClient:
        options.setdefault("request_timeout_ms", 10_000)
        options.setdefault("retry_backoff_ms", 1)
        return ClusterClient(f"127.0.0.1:{self.ports[0]}", "tool", self.clock, **options)

    def handler(self, broker: int) -> Any:
        def handle(request: Request) -> None:
            self.requests.append((broker, request.spec.name, request.header.api_version))
            if broker in self.hanging or (request.header.api_key != 18 and self.silent):
                return
            answer = getattr(self, request.spec.name)(broker, request)
            request.respond(answer)

        return handle

    def asked(self, name: str) -> list[int]:
        return [broker for broker, api, _ in self.requests if api == name]

    def ApiVersions(self, broker: int, request: Request) -> Any:
        served = request.header.api_version <= 2
        keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in VERSIONS.items()]
        return ApiVersionsResponse(error_code=0 if served else 35, api_keys=keys)

    def Metadata(self, broker: int, request: Request) -> Any:
        topics = []
        for name in [each.name for each in request.message.topics] if request.message.topics is not None else ["t"]:
            partition = MetadataResponsePartition(
                partition_index=0, leader_id=self.leader, leader_epoch=5, replica_nodes=[0, 1], isr_nodes=[0]
            )
            known = name == "t" and not self.unheard
            self.unheard = max(0, self.unheard - 1)
            topics.append(
                MetadataResponseTopic(name=name, error_code=0 if known else 3, partitions=[partition] if known else [])
            )
        brokers = [
            MetadataResponseBroker(node_id=number, host="127.0.0.1", port=port)
            for number, port in enumerate(self.ports)
        ]
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=self.controller, topics=topics)

    def FindCoordinator(self, broker: int, request: Request) -> Any:
        return FindCoordinatorResponse(
            node_id=self.coordinator, host="127.0.0.1", port=self.ports[self.coordinator], error_code=0
        )

    def CreateTopics(self, broker: int, request: Request) -> Any:
        code = 0 if broker == self.controller else ErrorCode.NOT_CONTROLLER
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=int(code))])

    def Produce(self, broker: int, request: Request) -> Any:
        code = 0 if broker == self.leader else int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition = PartitionProduceResponse(index=0, error_code=code, base_offset=broker)
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])

    def Heartbeat(self, broker: int, request: Request) -> Any:
        return HeartbeatResponse(error_code=0 if broker == self.coordinator else int(ErrorCode.NOT_COORDINATOR))

    def ListGroups(self, broker: int, request: Request) -> Any:
        return ListGroupsResponse()


@pytest.fixture
def cluster(servers: Servers) -> Cluster:
    return Cluster(servers)


def offset_of(response: Any) -> tuple[int, int]:
    partition = response.responses[0].partition_responses[0]
    return partition.error_code, partition.base_offset


def test_metadata_and_negotiated_versions(cluster: Cluster) -> None:
    with cluster.client() as client:
        found = client.metadata()
        assert found.cluster_id == "c"
        assert [each.port for each in found.brokers.values()] == cluster.ports
        assert client.topic("t").partitions[0].leader_epoch == 5
        assert found.leader("t", 0) == found.brokers[0]
        assert client.versions(0)[3] == (0, 12)
        client.call_leader("t", 0, produce())
        assert ("Produce", 9) in [each[1:] for each in cluster.requests]
        with pytest.raises(ApiError) as caught:
            client.topic("absent")
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_made_a_moment_ago_is_asked_for_until_a_broker_has_heard_of_it(cluster: Cluster) -> None:
    with cluster.client() as client:
        cluster.unheard = 5
        assert client.topic("t").partitions[0].leader == 0
    with cluster.client() as client:
        cluster.unheard = 5
        assert offset_of(client.call_leader("t", 0, produce())) == (0, 0)
    with cluster.client(topic_patience_ms=0) as client:
        cluster.unheard = 2
        with pytest.raises(ApiError):
            client.topic("t")
        assert cluster.unheard == 1


def test_leader_controller_and_coordinator_are_followed_when_they_move(cluster: Cluster) -> None:
    with cluster.client() as client:
        for place in (0, 1, 0):
            cluster.leader = cluster.controller = cluster.coordinator = place
            assert offset_of(client.call_leader("t", 0, produce())) == (0, place)
            assert client.call_controller(CreateTopicsRequest()).topics[0].error_code == 0
            assert client.call_coordinator("g", 0, HeartbeatRequest(group_id="g")).error_code == 0
            assert client.call_broker(1 - place, ListGroupsRequest()).error_code == 0
            assert cluster.asked("ListGroups")[-1] == 1 - place


def test_an_error_that_does_not_pass_is_returned_when_the_time_is_over(cluster: Cluster) -> None:
    with cluster.client(request_timeout_ms=150) as client:
        client.metadata(["t"])
        cluster.Produce = lambda broker, request: ProduceResponse(  # type: ignore[method-assign]
            responses=[TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse(error_code=6)])]
        )
        assert offset_of(client.call_leader("t", 0, produce()))[0] == 6
        assert len(cluster.asked("Produce")) > 1


def test_lost_connections_are_made_again(cluster: Cluster, servers: Servers) -> None:
    with cluster.client() as client:
        client.call_any(ListGroupsRequest())
        client.brokers()
        cluster.servers[0].shutdown()
        for _ in range(4):
            client.call_any(ListGroupsRequest())
        assert cluster.asked("ListGroups")[-4:] == [1, 1, 1, 1]


def test_a_broker_that_hangs_is_given_up_for_another(cluster: Cluster) -> None:
    """Its socket is open, as that of a process that is stopped or swaps."""
    with cluster.client(request_timeout_ms=900) as client:
        client.metadata()
        cluster.hanging = {0}
        for _ in range(3):
            assert client.metadata(["t"]).topics["t"].error is ErrorCode.NONE
    assert {0, 1} <= set(cluster.asked("Metadata"))


def test_no_broker_at_all(cluster: Cluster) -> None:
    for server in cluster.servers:
        server.shutdown()
    with cluster.client(request_timeout_ms=100) as client, pytest.raises(ClusterUnavailable):
        client.metadata()


def test_no_version_in_common(cluster: Cluster) -> None:
    with cluster.client() as client, pytest.raises(UnsupportedVersion, match="CreateTopics in versions 2 to 7"):
        client.call_controller(CreateTopicsRequest(), max_version=1)
    with pytest.raises(UnsupportedVersion, match="does not serve Produce"):
        choose_version(0, {})


def test_many_threads_share_a_client(cluster: Cluster) -> None:
    answers: list[int] = []
    with cluster.client() as client:

        def work() -> None:
            for _ in range(20):
                answers.append(offset_of(client.call_leader("t", 0, produce()))[0])

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert answers == [0] * 160


def test_close_wakes_a_call(cluster: Cluster) -> None:
    client = cluster.client()
    client.brokers()
    cluster.silent = True
    failures: list[BaseException] = []

    def call() -> None:
        try:
            client.call_broker(1, ListGroupsRequest())
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    wait_until(lambda: bool(cluster.asked("ListGroups")), "asked")
    client.close()
    thread.join(60)
    assert len(failures) == 1


@pytest.mark.parametrize("text", ["", " , ", "host", "host:", ":9092", "host:0", "host:x", "host:70000"])
def test_bad_bootstrap(text: str) -> None:
    with pytest.raises(ValueError):
        parse_bootstrap(text)


def test_bootstrap() -> None:
    assert [(each.host, each.port) for each in parse_bootstrap("a:1, [::1]:2,")] == [("a", 1), ("::1", 2)]
