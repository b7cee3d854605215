"""Building the three requests of the controller from the context, in the layout of the version that is sent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from controller.config import ControllerConfig
from controller.context import ControllerContext
from controller.zk.payloads import SECURITY_PROTOCOLS, BrokerInfo
from log.topic_partition import TopicPartition
from network.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from network.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from network.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from network.protocol.uuids import ZERO_UUID

# Security protocols by name in the order of their numbers on the wire.
_PROTOCOL_NUMBERS = {name: number for number, name in enumerate(SECURITY_PROTOCOLS)}


class StopState(NamedTuple):
    """What StopReplica says of one partition."""

    leader_epoch: int
    delete: bool


def leader_and_isr(
    version: int,
    config: ControllerConfig,
    context: ControllerContext,
    broker: int,
    states: Collection[LeaderAndIsrPartitionState],
) -> LeaderAndIsrRequest:
    leaders = sorted({state.leader for state in states} & context.brokers.keys())
    request = LeaderAndIsrRequest(
        controller_id=config.broker_id,
        controller_epoch=context.epoch,
        broker_epoch=context.brokers[broker].epoch,
        live_leaders=[
            LeaderAndIsrLiveLeader(broker_id=leader, host_name=endpoint.host, port=endpoint.port)
            for leader in leaders
            if (endpoint := context.brokers[leader].endpoint(config.inter_broker_listener)) is not None
        ],
    )
    if version < 2:
        request.ungrouped_partition_states = list(states)
        return request
    groups: dict[str, list[LeaderAndIsrPartitionState]] = {}
    for state in states:
        groups.setdefault(state.topic_name, []).append(state)
    request.topic_states = [
        LeaderAndIsrTopicState(
            topic_name=topic, topic_id=context.topic_ids.get(topic, ZERO_UUID), partition_states=members
        )
        for topic, members in groups.items()
    ]
    return request


def update_metadata(
    version: int,
    config: ControllerConfig,
    context: ControllerContext,
    brokers: Sequence[int],
    states: Sequence[UpdateMetadataPartitionState],
) -> Iterable[tuple[int, UpdateMetadataRequest]]:
    """The same content for each of `brokers`, with its own broker epoch."""
    live = [_broker(version, context.brokers[broker]) for broker in context.registered_ids]
    groups: dict[str, list[UpdateMetadataPartitionState]] = {}
    if version >= 5:
        for state in states:
            groups.setdefault(state.topic_name, []).append(state)
    topics = [
        UpdateMetadataTopicState(
            topic_name=topic, topic_id=context.topic_ids.get(topic, ZERO_UUID), partition_states=members
        )
        for topic, members in groups.items()
    ]
    for broker in brokers:
        yield (
            broker,
            UpdateMetadataRequest(
                controller_id=config.broker_id,
                controller_epoch=context.epoch,
                broker_epoch=context.brokers[broker].epoch,
                ungrouped_partition_states=list(states) if version < 5 else [],
                topic_states=topics,
                live_brokers=live,
            ),
        )


def _broker(version: int, broker: BrokerInfo) -> UpdateMetadataBroker:
    described = UpdateMetadataBroker(id=broker.id, rack=broker.rack)
    if version == 0:
        plain = next((item for item in broker.endpoints if item.security_protocol == "PLAINTEXT"), None)
        if plain is not None:
            described.v0_host, described.v0_port = plain.host, plain.port
        return described
    described.endpoints = [
        UpdateMetadataEndpoint(
            port=endpoint.port,
            host=endpoint.host,
            listener=endpoint.listener_name,
            security_protocol=_PROTOCOL_NUMBERS[endpoint.security_protocol],
        )
        for endpoint in broker.endpoints
    ]
    return described


def stop_replica(
    version: int,
    config: ControllerConfig,
    context: ControllerContext,
    broker: int,
    partitions: Mapping[TopicPartition, StopState],
) -> list[StopReplicaRequest]:
    """One request, or before version 3 (one delete flag a request) one for each value of the flag."""

    def request() -> StopReplicaRequest:
        return StopReplicaRequest(
            controller_id=config.broker_id,
            controller_epoch=context.epoch,
            broker_epoch=context.brokers[broker].epoch,
        )

    if version >= 3:
        groups: dict[str, list[StopReplicaPartitionState]] = {}
        for partition, state in partitions.items():
            groups.setdefault(partition.topic, []).append(
                StopReplicaPartitionState(
                    partition_index=partition.partition,
                    leader_epoch=state.leader_epoch,
                    delete_partition=state.delete,
                )
            )
        whole = request()
        whole.topic_states = [
            StopReplicaTopicState(topic_name=topic, partition_states=members) for topic, members in groups.items()
        ]
        return [whole]
    made: list[StopReplicaRequest] = []
    for delete in (True, False):
        members = [partition for partition, state in partitions.items() if state.delete is delete]
        if not members:
            continue
        part = request()
        part.delete_partitions = delete
        if version == 0:
            part.ungrouped_partitions = [
                StopReplicaPartitionV0(topic_name=item.topic, partition_index=item.partition) for item in members
            ]
        else:
            by_topic: dict[str, list[int]] = {}
            for item in members:
                by_topic.setdefault(item.topic, []).append(item.partition)
            part.topics = [
                StopReplicaTopicV1(name=topic, partition_indexes=numbers) for topic, numbers in by_topic.items()
            ]
        made.append(part)
    return made
