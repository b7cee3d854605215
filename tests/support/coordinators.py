"""Where groups and transactional ids are coordinated, and ways to move their coordinator to another broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from broker.coordinator.internal_topic_names import partition_for
from broker.dev.polling import wait_until
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from network.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.cluster import CLOCK, Broker, Cluster
from tests.support.replication import leader_of, partitions_of, wait_in_sync
from tests.support.wire import call

GROUP, TRANSACTION = 0, 1
INTERNAL = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}
Way = Literal["killed", "stopped", "elected"]

_PREFERRED = 0
_TIMEOUT_MS = 120_000


def place_of(cluster: Cluster, key: str, key_type: int) -> tuple[str, int]:
    """Topic and partition that keep a group or a transactional id."""
    topic = INTERNAL[key_type]
    return topic, partition_for(key, len(partitions_of(cluster.running[0], topic)))


def wait_internal_topic(cluster: Cluster, key_type: int) -> None:
    """Create the internal topic, as the first look-up of a key does, and wait until it has all its replicas."""

    def found() -> bool:
        request = FindCoordinatorRequest(key="first", key_type=key_type)
        return bool(call(cluster.running[0], request, 3).error_code == ErrorCode.NONE)

    assert wait_until(found, CLOCK, _TIMEOUT_MS, 200), f"{INTERNAL[key_type]} does not come into being"
    wait_in_sync(cluster, INTERNAL[key_type])


def coordinator_of(cluster: Cluster, key: str, key_type: int) -> Broker:
    """The broker that every running broker names as the coordinator, once they agree on a running one."""
    last: list[int] = []

    def agreed() -> bool:
        last.clear()
        for broker in cluster.running:
            try:
                answer = call(broker, FindCoordinatorRequest(key=key, key_type=key_type), 3)
            except OSError:
                return False
            last.append(-1 if answer.error_code else answer.node_id)
        return len(set(last)) == 1 and last[0] in {broker.broker_id for broker in cluster.running}

    assert wait_until(agreed, CLOCK, _TIMEOUT_MS, 100), f"no agreed coordinator of {key}: {last}"
    return cluster.brokers[last[0]]


def elect_preferred(cluster: Cluster, topic: str, partition: int) -> None:
    """Let the partition's first replica lead, as soon as it is in sync. No-op when it leads already."""
    request = ElectLeadersRequest(
        election_type=_PREFERRED,
        topic_partitions=[TopicPartitions(topic=topic, partitions=[partition])],
        timeout_ms=30_000,
    )
    codes: set[int] = set()

    def done() -> bool:
        wait_in_sync(cluster, topic)
        with cluster.client() as client:
            answer = client.call_controller(request, 40_000)
        codes.clear()
        codes.update(each.error_code for result in answer.replica_election_results for each in result.partition_result)
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE not in codes

    # A replica may fall out of the ISR again for a moment.
    assert wait_until(done, CLOCK, _TIMEOUT_MS, 200), f"the first replica of {topic}-{partition} is not in sync"
    if codes - {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED}:
        raise ApiError(ErrorCode.of(max(codes)))


class Moves:
    """Moves the coordinator of one key from broker to broker, and brings back what it took down."""

    def __init__(self, cluster: Cluster, key: str, key_type: int) -> None:
        self._cluster = cluster
        self._key = key
        self._key_type = key_type
        self.topic, self.partition = place_of(cluster, key, key_type)
        self._down: Broker | None = None

    @property
    def coordinator(self) -> Broker:
        """Who it is now."""
        return coordinator_of(self._cluster, self._key, self._key_type)

    @property
    def preferred(self) -> int:
        """The broker that leads after a preferred election."""
        with self._cluster.client() as client:
            return client.topic(self.topic, refresh=True).partitions[self.partition].replicas[0]

    def away(self, way: Way) -> Broker:
        """Kill or stop the coordinator, or elect the preferred leader in its place; returns its successor."""
        before = self.coordinator
        if way == "elected":
            elect_preferred(self._cluster, self.topic, self.partition)
        elif way == "killed":
            before.kill()
            self._down = before
        else:
            # 143: how a Java program ends that stopped in order when it was told to.
            assert before.stop() == (143 if before.kind == "kafka" else 0)
            self._down = before
        after: list[Broker] = []

        def moved() -> bool:
            after[:] = [self.coordinator]
            return after[0] is not before

        assert wait_until(moved, CLOCK, _TIMEOUT_MS, 100), f"broker {before.broker_id} still coordinates {self._key}"
        assert leader_of(self._cluster, self.topic, self.partition) == after[0].broker_id
        return after[0]

    def restore(self) -> None:
        """Start what was taken down; the coordinator stays where it is."""
        if self._down is None:
            return
        self._down.start()
        self._down = None
        self._cluster.wait_ready()
        wait_in_sync(self._cluster, self.topic)


def eventually(condition: Callable[[], object], what: Callable[[], object] | str, timeout_ms: int = 150_000) -> None:
    """Until the condition holds; fails with `what`."""
    assert wait_until(lambda: bool(condition()), CLOCK, timeout_ms, 100), what() if callable(what) else what
