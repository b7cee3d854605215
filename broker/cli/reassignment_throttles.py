"""Limits on the replication traffic of reassignments: set before they start, taken away when they are done.

Rates are dynamic configs of brokers, in bytes per second; topics name the replicas that count: on the leader's side
those that are copied from, on the follower's side those that are copied to (KIP-73).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from broker.cli.client import describe
from broker.cli.errors import CommandError
from broker.cli.reassignments import Ongoing
from broker.config.admin import BROKER_RESOURCE, DELETE, SET, TOPIC_RESOURCE
from broker.dev.polling import wait_until
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.client.connection import ConnectionFailed
from network.protocol.errors import ApiError
from network.protocol.message import Request
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from timer.clock import SystemClock

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_RATES, _REPLICAS = [LEADER_RATE, FOLLOWER_RATE], [LEADER_REPLICAS, FOLLOWER_REPLICAS]
_BROKER_TIMEOUT_MS = 10_000
_APPLY_MS = 30_000
# Sources of a dynamic value of the resource itself, in DescribeConfigs.
_OWN = {TOPIC_RESOURCE: 1, BROKER_RESOURCE: 2}


@dataclass(frozen=True, slots=True)
class Move:
    """Brokers that a partition is copied from, and those that it is copied to."""

    sources: list[int]
    destinations: list[int]


Moves = Mapping[TopicPartition, Move]


def plan_moves(
    current: Mapping[TopicPartition, Sequence[int]],
    running: Mapping[TopicPartition, Ongoing],
    wanted: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """What the wanted replicas copy. Where a reassignment goes on, the replicas that it adds are no source yet."""
    moves = {}
    for tp, target in wanted.items():
        adding = running[tp].adding if tp in running else []
        sources = [broker for broker in current[tp] if broker not in adding]
        moves[tp] = Move(sources, [broker for broker in target if broker not in sources])
    return moves


def throttled_replicas(moves: Moves) -> dict[str, dict[str, str]]:
    """The two configs of each topic that say which replicas count."""
    sides: dict[str, tuple[list[str], list[str]]] = {}
    for tp, move in sorted(moves.items()):
        leaders, followers = sides.setdefault(tp.topic, ([], []))
        leaders.extend(f"{tp.partition}:{broker}" for broker in sorted(move.sources))
        followers.extend(f"{tp.partition}:{broker}" for broker in sorted(move.destinations))
    return {
        topic: {LEADER_REPLICAS: ",".join(leaders), FOLLOWER_REPLICAS: ",".join(followers)}
        for topic, (leaders, followers) in sides.items()
    }


def limit(client: ClusterClient, moves: Moves, rate: int) -> None:
    """Throttle these moves on every broker that takes part and runs. Raises CommandError."""
    copying = {tp: move for tp, move in moves.items() if move.destinations}
    for topic, configs in throttled_replicas(copying).items():
        _alter(client, TOPIC_RESOURCE, topic, {key: value for key, value in configs.items() if value})
    brokers = {broker for move in copying.values() for broker in (*move.sources, *move.destinations)}
    _limit_brokers(client, brokers & client.brokers().keys(), dict.fromkeys(_RATES, str(rate)))


def limit_log_dirs(client: ClusterClient, brokers: Iterable[int], rate: int) -> None:
    """Throttle what these brokers copy between their log directories, in bytes per second. Raises CommandError."""
    _limit_brokers(client, brokers, {LOG_DIR_RATE: str(rate)})


def _limit_brokers(client: ClusterClient, brokers: Iterable[int], rates: Mapping[str, str]) -> None:
    """Set the rates, and wait until the brokers go by them: what starts before is copied at full speed.

    Brokers take changes of configs in their order, so what was set for topics before is in force then, too.
    """
    waiting = sorted(set(brokers))
    for broker in waiting:
        _alter(client, BROKER_RESOURCE, str(broker), rates)

    def applied() -> bool:
        waiting[:] = [each for each in waiting if _own(client, BROKER_RESOURCE, str(each), list(rates)) != rates]
        return not waiting

    if not wait_until(applied, SystemClock(), _APPLY_MS):
        raise CommandError(f"brokers that do not take their limit in time: {', '.join(map(str, waiting))}")


def clear_topics(client: ClusterClient, topics: Iterable[str]) -> list[str]:
    """Take the throttled replicas from topics; those that had some. Topics that do not exist are passed over."""
    return [topic for topic in sorted(set(topics)) if _clear(client, TOPIC_RESOURCE, topic, _REPLICAS)]


def clear_brokers(client: ClusterClient) -> list[int]:
    """Take the rates from every running broker; those that had some. A broker that does not answer is warned of and
    passed over: the others shall not stay slow because of it."""
    cleared = []
    for broker in sorted(client.brokers()):
        try:
            if _clear(client, BROKER_RESOURCE, str(broker), [*_RATES, LOG_DIR_RATE]):
                cleared.append(broker)
        except (ApiError, ConnectionFailed) as error:
            click.echo(f"broker {broker} does not say whether it has a limit: {error}", err=True)
    return cleared


def _clear(client: ClusterClient, kind: int, name: str, keys: list[str]) -> bool:
    own = _own(client, kind, name, keys)
    if own:
        _alter(client, kind, name, dict.fromkeys(own))
    return bool(own)


def _own(client: ClusterClient, kind: int, name: str, keys: list[str]) -> dict[str, str | None]:
    """Those of the configs that are set for the resource itself."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(resources=[resource])
    (found,) = _call(client, kind, name, request).results
    return {entry.name: entry.value for entry in found.configs if entry.config_source == _OWN[kind]}


def _alter(client: ClusterClient, kind: int, name: str, configs: Mapping[str, str | None]) -> None:
    """Set configs, or delete those without a value."""
    changes = [
        AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
        for key, value in configs.items()
    ]
    if not changes:
        return
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (result,) = _call(client, kind, name, request).responses
    if result.error_code:
        what = "topic" if kind == TOPIC_RESOURCE else "broker"
        raise CommandError(f"configs of {what} {name}: {describe(result.error_code, result.error_message)}")


def _call(client: ClusterClient, kind: int, name: str, request: Request) -> Any:
    """Topics are any broker's business, configs of a broker its own."""
    if kind == TOPIC_RESOURCE:
        return client.call_any(request)
    return client.call_broker(int(name), request, _BROKER_TIMEOUT_MS)
