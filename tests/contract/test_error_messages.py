"""Every error message of every API and version beside Apache Kafka's: null where it is null, empty where it is empty.

The table of requests is `tests.support.error_cases`; what is compared is found in the message schemas.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from network.protocol.api import API, ApiKey
from network.protocol.message import Struct
from network.protocol.messages.find_coordinator import FindCoordinatorRequest
from network.protocol.messages.metadata import MetadataRequest
from tests.support import wire
from tests.support.cluster import Broker, Cluster, Kind, running_cluster
from tests.support.error_cases import CASES, COMPACTED, EMPTY, EXISTING, LIMITED, Case

MESSAGE = "error_message"

# Both have a text here, in words of their own: Kafka's shows Scala's collections, or another class's name, or repeats
# what the answer names anyway. The first column is the API, the second the case, None for all.
OWN_WORDS: set[tuple[ApiKey, str | None]] = {
    (ApiKey.PRODUCE, "no key in a compacted topic"),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, None),
    (ApiKey.ALTER_CONFIGS, None),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, None),
}


def structs(struct: type[Struct]) -> Iterator[type[Struct]]:
    """The struct and all that it holds."""
    yield struct
    for field in struct.FIELDS:
        inner = field.struct or (field.element.struct if field.element else None)
        if inner is not None:
            yield from structs(inner)  # type: ignore[arg-type]


def has_message(struct: type[Struct]) -> bool:
    return any(field.name == MESSAGE for each in structs(struct) for field in each.FIELDS)


WITH_MESSAGE = {ApiKey(key) for key, spec in API.items() if has_message(spec.response)}
VERSIONS = [
    (case, version)
    for case in CASES
    for version in range(max(case.first, API[case.api].min_version), min(case.last, API[case.api].max_version) + 1)
]


def test_no_api_is_left_out() -> None:
    covered = {(case.api, version) for case, version in VERSIONS}
    everything = {
        (api, version) for api in WITH_MESSAGE for version in range(API[api].min_version, API[api].max_version + 1)
    }
    # Produce below version 3 carries other formats of records, and has no message. Apache Kafka 3.9 lacks the others.
    newer = {(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1), (ApiKey.CONSUMER_GROUP_DESCRIBE, 1)}
    assert everything - covered == {(ApiKey.PRODUCE, version) for version in range(3)} | newer


@pytest.fixture(scope="module")
def clusters(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Kind, Cluster]]:
    """Two brokers of each kind, with the same topics."""
    kinds: list[Kind] = ["kafka", "odradek"]
    with ExitStack() as stack:
        made = {}
        for kind in kinds:
            directory = tmp_path_factory.mktemp(f"messages-{kind}")
            cluster = stack.enter_context(running_cluster([kind, kind], directory, f"{zookeeper}/messages-{kind}"))
            for name, configs in (
                (EXISTING, {}),
                (EMPTY, {}),
                (COMPACTED, {"cleanup.policy": "compact"}),
                (LIMITED, {"max.message.bytes": "1000"}),
            ):
                wire.create_topic(cluster, name, configs=configs)
            for key_type in (0, 1):
                _wait_for_coordinators(cluster, key_type)
            made[kind] = cluster
        yield made


def _wait_for_coordinators(cluster: Cluster, key_type: int) -> None:
    deadline = time.monotonic() + wire.TIMEOUT_MS / 1000
    for broker in cluster.brokers:
        while True:
            found = wire.call(broker, FindCoordinatorRequest(coordinator_keys=["one", "two"], key_type=key_type), 4)
            if not any(each.error_code for each in found.coordinators):
                break
            assert time.monotonic() < deadline, found
            wire.pause()


def broker_for(cluster: Cluster, case: Case) -> Broker:
    """The controller, or another for a case that says so; the leader for what goes to one partition."""
    metadata = wire.call(cluster.brokers[0], MetadataRequest(topics=None), 12)
    target = metadata.controller_id
    if case.api in (ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
        return cluster.brokers[0]
    if case.api in (ApiKey.PRODUCE, ApiKey.DESCRIBE_PRODUCERS):
        name = {"no key in a compacted topic": COMPACTED, "too large": LIMITED, "good and bad": COMPACTED}.get(
            case.name, EXISTING
        )
        (target,) = (topic.partitions[0].leader_id for topic in metadata.topics if topic.name == name)
    if case.elsewhere:
        (target,) = (broker.broker_id for broker in cluster.brokers if broker.broker_id != metadata.controller_id)
    return next(broker for broker in cluster.brokers if broker.broker_id == target)


def messages(struct: Any, version: int, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, int, str | None]]:
    """Where in the answer a message stands (by the names around it, not by its place), its error code and text."""
    names = ("name", "topic", "resource_type", "resource_name", "feature", "user", "key", "group_id", "batch_index")
    numbers = ("partition_index", "partition_id", "index")
    here = (*path, *(str(getattr(struct, name)) for name in names + numbers if hasattr(struct, name)))
    for field in struct.FIELDS:
        if version not in field.versions:
            continue
        value = getattr(struct, field.name)
        if field.name == MESSAGE or field.name == "batch_index_error_message":
            yield here, getattr(struct, "error_code", 0), value
        elif field.element is not None and field.element.struct is not None:
            for item in value or ():
                yield from messages(item, version, here)


@pytest.mark.parametrize(
    ("case", "version"), VERSIONS, ids=[f"{case.api.name}-v{version}-{case.name}" for case, version in VERSIONS]
)
def test_messages_are_those_of_apache_kafka(clusters: dict[Kind, Cluster], case: Case, version: int) -> None:
    answers: dict[Kind, list[tuple[Any, int, str | None]]] = {}
    for kind, cluster in clusters.items():
        broker = broker_for(cluster, case)
        response = wire.call(broker, case.make(version), version)
        answers[kind] = sorted(messages(response, version), key=str)
    own_words = {(case.api, None), (case.api, case.name)} & OWN_WORDS and not case.elsewhere
    assert [each[0] for each in answers["odradek"]] == [each[0] for each in answers["kafka"]]
    for ours, theirs in itertools.zip_longest(answers["odradek"], answers["kafka"]):
        where = f"{case.api.name} v{version} {ours[0]}: {ours[2]!r}, Apache Kafka {theirs[2]!r}"
        assert ours[1] == theirs[1], f"{where}: codes {ours[1]} and {theirs[1]}"
        if own_words and theirs[2]:
            assert ours[2], where
        else:
            assert ours[2] == theirs[2], where
