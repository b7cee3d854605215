"""Topics and partitions, in the order of their names."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from broker.config.admin import TOPIC_RESOURCE
from broker.http.console.access import Problem
from broker.http.console.api.configs import configs
from broker.http.console.api.question import Question
from broker.http.console.api.reading import EARLIEST, LATEST, log_dirs, offsets, replica_sizes
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ErrorCode


def topics(client: ClusterClient, _question: Question) -> Any:
    """A row for each topic: name, internal, partitions, replication factor, under-replicated and offline ones."""
    found = client.metadata().topics
    return {
        "topics": [
            [
                topic.name,
                topic.internal,
                len(topic.partitions),
                max((len(each.replicas) for each in topic.partitions.values()), default=0),
                sum(len(each.isr) < len(each.replicas) for each in topic.partitions.values()),
                sum(each.leader < 0 for each in topic.partitions.values()),
            ]
            for _, topic in sorted(found.items())
            if topic.error is ErrorCode.NONE
        ]
    }


def partitions(client: ClusterClient, _question: Question) -> Any:
    """A row for each partition: topic (its number in `names`), partition, leader, epoch, replicas, ISR."""
    found = sorted(client.metadata().topics.items())
    return {
        "names": [name for name, _ in found],
        "partitions": [
            [number, each.partition, each.leader, each.leader_epoch, each.replicas, each.isr]
            for number, (_, topic) in enumerate(found)
            for each in topic.partitions.values()
        ],
    }


def sizes(client: ClusterClient, _question: Question) -> Any:
    """Bytes by topic (of its leaders' copies when all answer, the largest copy otherwise), and by broker. Needs
    `Describe` on the cluster; without it there is nothing but the reason."""
    answers, silent = log_dirs(client, client.brokers())
    largest: dict[TopicPartition, int] = {}
    by_broker: dict[int, int] = dict.fromkeys(answers, 0)
    for broker_id, _, tp, size, _ in replica_sizes(answers):
        by_broker[broker_id] += size
        if size > largest.get(tp, -1):
            largest[tp] = size
    by_topic: dict[str, int] = {}
    for tp, size in largest.items():
        by_topic[tp.topic] = by_topic.get(tp.topic, 0) + size
    return {"topics": by_topic, "brokers": by_broker, "silent": silent}


def topic(client: ClusterClient, question: Question) -> Any:
    """One topic: partitions with offsets, copies with their sizes, configuration."""
    name = question.text("name")
    seen = client.metadata([name])
    found = seen.topics.get(name)
    if found is None or found.error is not ErrorCode.NONE:
        error = found.error if found is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        hidden = error is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        status = HTTPStatus.FORBIDDEN if hidden else HTTPStatus.NOT_FOUND
        text = "You may not see this topic." if hidden else "There is no such topic."
        raise Problem(status, error.name, text)
    names = [TopicPartition(name, number) for number in found.partitions]
    first, end = (offsets(client, seen, names, mark) for mark in (EARLIEST, LATEST))
    answers, silent = log_dirs(client, seen.brokers)
    copies: dict[int, list[Any]] = {}
    for broker_id, directory, tp, size, lag in replica_sizes(answers):
        if tp.topic == name:
            copies.setdefault(tp.partition, []).append([broker_id, directory, size, lag])
    return {
        "name": name,
        "id": str(found.topic_id.hex()),
        "internal": found.internal,
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader,
                "epoch": each.leader_epoch,
                "replicas": each.replicas,
                "isr": each.isr,
                "first": first.get(TopicPartition(name, each.partition)),
                "end": end.get(TopicPartition(name, each.partition)),
                "copies": copies.get(each.partition, []),
            }
            for each in found.partitions.values()
        ],
        "silent": silent,
        "configs": configs(client, TOPIC_RESOURCE, name),
    }
