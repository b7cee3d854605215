"""The target's topics: made with the source's partitions and configs, and grown with them; never shrunk or deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from network.client.cluster_client import ClusterClient
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from network.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

_TOPIC = 2
_SET = 0
_TIMEOUT_MS = 60_000
_OF_THE_TOPIC = 1  # a config's source: set on the topic itself
BROKERS_DEFAULT = -1
# What belongs to one cluster, as MirrorMaker 2 leaves it out (KIP-545); the time of records stays as it is written.
NOT_COPIED = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    }
)


class TopicMismatchError(Exception):
    """The target's topic can't take the source's records as they are."""


def topic_configs(client: ClusterClient, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """What is set on these topics themselves. Raises ApiError."""
    resources = [DescribeConfigsResource(resource_type=_TOPIC, resource_name=name) for name in topics]
    found: dict[str, dict[str, str]] = {}
    for result in client.call_any(DescribeConfigsRequest(resources=resources)).results:
        _check(result.error_code, result.error_message, f"configs of {result.resource_name}")
        found[result.resource_name] = {
            each.name: each.value
            for each in result.configs
            if each.config_source == _OF_THE_TOPIC and each.value is not None
        }
    return found


def bring_topics(
    source: ClusterClient, target: ClusterClient, names: Mapping[str, str], replication_factor: int = BROKERS_DEFAULT
) -> list[str]:
    """Make or grow the target's topics (`names`: the source's name to the target's) and set configs that differ.

    Returns what was done, a line each. Raises ApiError, and TopicMismatchError where the target has more partitions:
    a key's records would not be where its clients look for them.
    """
    done: list[str] = []
    if not names:
        return done
    here, there = source.metadata(names), target.metadata(names.values())
    configs = topic_configs(source, names)
    for name, copy in sorted(names.items()):
        wanted = len(here.topics[name].partitions)
        copied = {key: value for key, value in configs[name].items() if key not in NOT_COPIED}
        known = there.topics.get(copy)
        if known is None or known.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            done += _make(target, copy, wanted, replication_factor, copied)
            continue
        _check(known.error, None, copy)
        has = len(known.partitions)
        if has > wanted:
            raise TopicMismatchError(
                f"{copy} has {has} partitions in the target, {name} has {wanted}: use another name (--prefix)"
            )
        if has < wanted:
            grown = CreatePartitionsTopic(name=copy, count=wanted, assignments=None)
            request = CreatePartitionsRequest(topics=[grown], timeout_ms=_TIMEOUT_MS, validate_only=False)
            for result in target.call_controller(request).results:
                _check(result.error_code, result.error_message, copy)
            done.append(f"{copy} grew from {has} to {wanted} partitions")
        done += _set_configs(target, copy, copied)
    return done


def _make(
    target: ClusterClient, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> list[str]:
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in sorted(configs.items())],
    )
    for result in target.call_controller(CreateTopicsRequest(topics=[wanted], timeout_ms=_TIMEOUT_MS)).topics:
        if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            _check(result.error_code, result.error_message, name)
    return [f"{name} was made with {partitions} partitions"]


def _set_configs(target: ClusterClient, name: str, wanted: Mapping[str, str]) -> list[str]:
    has = topic_configs(target, [name])[name]
    changed = {key: value for key, value in sorted(wanted.items()) if has.get(key) != value}
    if not changed:
        return []
    resource = AlterConfigsResource(
        resource_type=_TOPIC,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=_SET, value=value) for key, value in changed.items()],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    for result in target.call_controller(request).responses:
        _check(result.error_code, result.error_message, f"configs of {name}")
    return [f"{name} has new configs: {', '.join(changed)}"]


def _check(code: int, message: str | None, what: str) -> None:
    if code:
        raise ApiError(ErrorCode.of(code), f"{what}: {message}" if message else what)
