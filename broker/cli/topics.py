"""``odradek topics``: create, list, describe, alter and delete topics."""

from __future__ import annotations

import re

import click

from broker.cli.client import bootstrap_option, cluster, describe
from broker.cli.errors import CommandError
from broker.cli.output import say
from broker.cli.presence import check_targets, no_topics
from broker.config.admin import DELETE, SET
from network.client.cluster_client import ClusterClient
from network.client.cluster_metadata import PartitionMetadata, TopicMetadata
from network.protocol.errors import ErrorCode
from network.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from network.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from network.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from network.protocol.uuids import ZERO_UUID, to_text

TOPIC_RESOURCE = 2
DYNAMIC_TOPIC_CONFIG = 1


@click.group("topics")
def command() -> None:
    """Create, list, describe, alter and delete topics."""


@command.command("create")
@click.argument("topic")
@bootstrap_option
@click.option("--partitions", type=click.IntRange(1), help="Broker's default without it.")
@click.option("--replication-factor", type=click.IntRange(1, 32767), help="Broker's default without it.")
@click.option("--replica-assignment", metavar="0:1,1:2", help="Replicas of each partition by hand, leader first.")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="Topic configuration; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Say nothing when the topic is there already.")
def create(
    topic: str,
    bootstrap_server: str,
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Create TOPIC."""
    assignments = _assignments(replica_assignment)
    if assignments and (partitions is not None or replication_factor is not None):
        raise CommandError("--replica-assignment says partitions and replication factor already", exit_code=2)
    wanted = CreatableTopic(
        name=topic,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if replication_factor is None else replication_factor,
        assignments=assignments,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in _pairs(configs)],
    )
    with cluster(bootstrap_server) as client:
        # A broker takes any ids, and the topic waits for brokers that may never come.
        check_targets(client, {broker for each in assignments for broker in each.broker_ids})
        (result,) = client.call_controller(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
    if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
        return
    denied = result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    _check(result.error_code, topic if denied else result.error_message)
    say(f"Created topic {topic}.", topic=topic, created=True)


@command.command("list")
@bootstrap_option
@click.option("--exclude-internal", is_flag=True, help="Leave out topics of the brokers themselves.")
def list_(bootstrap_server: str, exclude_internal: bool) -> None:
    """List all topics, sorted."""
    with cluster(bootstrap_server) as client:
        topics = client.metadata().topics
    for name in sorted(topics):
        if not (exclude_internal and topics[name].internal):
            say(name, topic=name, internal=topics[name].internal)


@command.command("describe")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@bootstrap_option
@click.option("--under-replicated", is_flag=True, help="Only partitions with replicas out of sync.")
@click.option("--unavailable", is_flag=True, help="Only partitions without leader.")
def describe_(topics: tuple[str, ...], bootstrap_server: str, under_replicated: bool, unavailable: bool) -> None:
    """Describe the topics, all without a name."""
    with cluster(bootstrap_server) as client:
        every = client.metadata(topics or None).topics
        missing = [name for name, topic in every.items() if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        found = {name: topic for name, topic in sorted(every.items()) if name not in missing}
        for name, topic in found.items():
            _check(topic.error, name)
        configs = _overrides(client, list(found))
    for name, topic in found.items():
        shown = [
            p
            for p in topic.partitions.values()
            if (not under_replicated or len(p.isr) < len(p.replicas)) and (not unavailable or p.leader < 0)
        ]
        filtered = under_replicated or unavailable
        if filtered and not shown:
            continue
        own = configs.get(name, {})
        lines = [] if filtered else [_headline(topic, own)]
        lines += [_line(name, partition) for partition in shown]
        say("\n".join(lines), **_facts(topic, own, shown))
    if missing:
        raise CommandError(no_topics(missing))


def _facts(topic: TopicMetadata, configs: dict[str, str], partitions: list[PartitionMetadata]) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topic_id": None if topic.topic_id == ZERO_UUID else to_text(topic.topic_id),
        "internal": topic.internal,
        "configs": configs,
        "partitions": [
            {
                "partition": each.partition,
                "leader": None if each.leader < 0 else each.leader,
                "replicas": each.replicas,
                "isr": each.isr,
                "offline_replicas": each.offline_replicas,
            }
            for each in partitions
        ],
    }


def _headline(topic: TopicMetadata, configs: dict[str, str]) -> str:
    factor = max((len(p.replicas) for p in topic.partitions.values()), default=0)
    topic_id = "" if topic.topic_id == ZERO_UUID else f"\tTopicId: {to_text(topic.topic_id)}"
    shown = ",".join(f"{key}={value}" for key, value in sorted(configs.items()))
    return (
        f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}\t"
        f"ReplicationFactor: {factor}\tConfigs: {shown}"
    )


def _line(name: str, partition: PartitionMetadata) -> str:
    leader = "none" if partition.leader < 0 else str(partition.leader)
    return (
        f"\tTopic: {name}\tPartition: {partition.partition}\tLeader: {leader}\t"
        f"Replicas: {','.join(map(str, partition.replicas))}\tIsr: {','.join(map(str, partition.isr))}"
    )


@command.command("alter")
@click.argument("topic")
@bootstrap_option
@click.option("--partitions", type=click.IntRange(1), help="New number of partitions; it can only grow.")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="Set a configuration; repeatable.")
@click.option("--delete-config", "deleted", multiple=True, metavar="KEY", help="Back to the default; repeatable.")
def alter(
    topic: str, bootstrap_server: str, partitions: int | None, configs: tuple[str, ...], deleted: tuple[str, ...]
) -> None:
    """Change TOPIC: more partitions, other configuration."""
    if partitions is None and not configs and not deleted:
        raise CommandError("nothing to change: give --partitions, --config or --delete-config", exit_code=2)
    changes = [AlterableConfig(name=k, config_operation=SET, value=v) for k, v in _pairs(configs)]
    changes += [AlterableConfig(name=key, config_operation=DELETE, value=None) for key in deleted]
    with cluster(bootstrap_server) as client:
        _check(client.metadata([topic]).topics[topic].error, topic)
        if partitions is not None:
            grown = CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
            request = CreatePartitionsRequest(topics=[grown], timeout_ms=30_000, validate_only=False)
            (result,) = client.call_controller(request).results
            _check(result.error_code, result.error_message)
        if changes:
            resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=changes)
            (answer,) = client.call_any(IncrementalAlterConfigsRequest(resources=[resource])).responses
            _check(answer.error_code, answer.error_message)
    say(f"Altered topic {topic}.", topic=topic, altered=True)


@command.command("delete")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@bootstrap_option
@click.option("--if-exists", is_flag=True, help="Say nothing of topics that are not there.")
def delete(topics: tuple[str, ...], bootstrap_server: str, if_exists: bool) -> None:
    """Delete the topics with all their records."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in topics], topic_names=list(topics), timeout_ms=30_000
    )
    with cluster(bootstrap_server) as client:
        results = client.call_controller(request).responses
    failed = []
    for result in results:
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and if_exists:
            continue
        if result.error_code:
            failed.append(f"{result.name}: {describe(result.error_code, result.error_message)}")
        else:
            say(f"Deleted topic {result.name}.", topic=result.name, deleted=True)
    if failed:
        raise CommandError("; ".join(failed))


def _overrides(client: ClusterClient, topics: list[str]) -> dict[str, dict[str, str]]:
    if not topics:
        return {}
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
            for name in topics
        ]
    )
    return {
        result.resource_name: {
            entry.name: entry.value or "" for entry in result.configs if entry.config_source == DYNAMIC_TOPIC_CONFIG
        }
        for result in client.call_any(request).results
    }


def _pairs(items: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = []
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise CommandError(f"--config {item!r} is not KEY=VALUE", exit_code=2)
        pairs.append((key, value))
    return pairs


def _assignments(text: str | None) -> list[CreatableReplicaAssignment]:
    if text is None:
        return []
    if not re.fullmatch(r"\d+(:\d+)*(,\d+(:\d+)*)*", text):
        raise CommandError(f"--replica-assignment {text!r} is not like 0:1,1:2", exit_code=2)
    return [
        CreatableReplicaAssignment(partition_index=index, broker_ids=[int(b) for b in replicas.split(":")])
        for index, replicas in enumerate(text.split(","))
    ]


def _check(code: int, message: str | None) -> None:
    if code:
        raise CommandError(describe(code, message))
