"""Topics for a program's cluster: made and deleted so that every broker knows when the call returns."""

from __future__ import annotations

from collections.abc import Mapping

from broker.cli.client import describe
from broker.cli.errors import CommandError
from broker.dev.cluster import DevCluster
from broker.dev.polling import wait_until
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from network.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from timer.clock import Clock

_TIMEOUT_MS = 30_000
_LOOK_MS = 10


def create_topic(
    cluster: DevCluster,
    clock: Clock,
    name: str,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str],
) -> None:
    """-1 stands for the brokers' defaults. Raises CommandError."""
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
    )
    with _client(cluster) as client:
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=_TIMEOUT_MS)
        _check(name, client.call_controller(request).topics[0])
    _wait(cluster, clock, name, known=True)


def delete_topic(cluster: DevCluster, clock: Clock, name: str) -> None:
    """Raises CommandError."""
    with _client(cluster) as client:
        # Both fields say the same in different versions of the request.
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=_TIMEOUT_MS)
        _check(name, client.call_controller(request).responses[0])
    _wait(cluster, clock, name, known=False)


def _check(name: str, result: object) -> None:
    code, message = getattr(result, "error_code", 0), getattr(result, "error_message", None)
    if code:
        raise CommandError(f"topic {name}: {describe(code, message)}")


def _client(cluster: DevCluster) -> ClusterClient:
    active = [broker for broker in cluster.brokers if broker.is_active]
    if not active:
        raise CommandError("no broker runs")
    return cluster.client(active, _TIMEOUT_MS)


def _wait(cluster: DevCluster, clock: Clock, name: str, *, known: bool) -> None:
    """Until every broker that runs knows the topic, with a leader of each partition, or none does."""

    def agreed() -> bool:
        for broker in cluster.brokers:
            if not broker.is_active:
                continue
            try:
                with cluster.client([broker], 5_000) as client:
                    found = client.metadata([name]).topics.get(name)
            except (OSError, ApiError):
                return False
            is_known = found is not None and found.error == ErrorCode.NONE
            if is_known != known:
                return False
            if found is not None and any(each.leader < 0 for each in found.partitions.values()) and known:
                return False
        return True

    if not wait_until(agreed, clock, _TIMEOUT_MS, _LOOK_MS):
        raise CommandError(f"not every broker has heard of topic {name} within {_TIMEOUT_MS // 1000} s")
