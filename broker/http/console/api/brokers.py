"""Brokers: who is there, who leads how much, and how full their directories are."""

from __future__ import annotations

from collections import Counter
from typing import Any

from broker.config.admin import BROKER_RESOURCE
from broker.http.console.api.configs import configs
from broker.http.console.api.question import Question
from broker.http.console.api.reading import log_dirs
from network.client.cluster_client import ClusterClient


def overview(client: ClusterClient, _question: Question) -> Any:
    """The cluster in numbers, and each broker's share. A broker that is away shows in the replicas that name it."""
    seen = client.metadata()
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    lagging: Counter[int] = Counter()
    partitions = under_replicated = offline = 0
    for topic in seen.topics.values():
        for each in topic.partitions.values():
            partitions += 1
            under_replicated += len(each.isr) < len(each.replicas)
            offline += each.leader < 0
            leaders[each.leader] += 1
            for broker_id in each.replicas:
                replicas[broker_id] += 1
            if len(each.isr) < len(each.replicas):
                lagging.update(broker_id for broker_id in each.replicas if broker_id not in each.isr)
    rows = []
    for broker_id in sorted({*seen.brokers, *replicas}):
        address = seen.brokers.get(broker_id)
        rows.append(
            {
                "id": broker_id,
                "host": address.host if address else None,
                "port": address.port if address else None,
                "rack": address.rack if address else None,
                "alive": address is not None,
                "controller": broker_id == seen.controller_id,
                "leaders": leaders[broker_id],
                "replicas": replicas[broker_id],
                "lagging": lagging[broker_id],
            }
        )
    return {
        "cluster_id": seen.cluster_id,
        "controller": seen.controller_id,
        "topics": len(seen.topics),
        "partitions": partitions,
        "under_replicated": under_replicated,
        "offline": offline,
        "brokers": rows,
    }


def broker(client: ClusterClient, question: Question) -> Any:
    """One broker's directories and configuration."""
    broker_id = question.number("id", high=2**31 - 1)
    answers, silent = log_dirs(client, [broker_id])
    directories = [
        {
            "path": result.log_dir,
            "failed": bool(result.error_code),
            "replicas": sum(len(topic.partitions) for topic in result.topics),
            "bytes": sum(each.partition_size for topic in result.topics for each in topic.partitions),
            "total": result.total_bytes,
            "usable": result.usable_bytes,
        }
        for answer in answers.values()
        for result in answer.results
        if result.log_dir
    ]
    return {
        "id": broker_id,
        "dirs": directories,
        "silent": silent,
        "configs": configs(client, BROKER_RESOURCE, str(broker_id)),
    }
