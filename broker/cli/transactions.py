"""``odradek transactions``: look at transactions, and end those that hang."""

from __future__ import annotations

import click

from broker.cli.client import bootstrap_option, cluster, describe
from broker.cli.errors import CommandError
from broker.cli.output import rows, say
from network.client.cluster_client import TRANSACTION_COORDINATOR, ClusterClient
from network.protocol.errors import ErrorCode
from network.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    TopicRequest,
)
from network.protocol.messages.describe_transactions import DescribeTransactionsRequest
from network.protocol.messages.list_transactions import ListTransactionsRequest
from network.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from timer.clock import SystemClock


@click.group("transactions")
def command() -> None:
    """Look at transactions, and end those that hang."""


@command.command("list")
@bootstrap_option
@click.option("--state", "states", multiple=True, help="Only these states; repeatable.")
@click.option("--running-longer-than-ms", type=click.IntRange(0), help="Only transactions open for longer.")
def list_(bootstrap_server: str, states: tuple[str, ...], running_longer_than_ms: int | None) -> None:
    """Transactional ids of all coordinators."""
    found: list[list[object]] = []
    request = ListTransactionsRequest(
        state_filters=list(states),
        duration_filter=-1 if running_longer_than_ms is None else running_longer_than_ms,
    )
    with cluster(bootstrap_server) as client:
        for broker_id in sorted(client.brokers()):
            response = client.call_broker(broker_id, request)
            _check(response.error_code, None)
            for name in response.unknown_state_filters:
                raise CommandError(f"there is no transaction state {name!r}", exit_code=2)
            for state in response.transaction_states:
                found.append([state.transactional_id, broker_id, state.producer_id, state.transaction_state])
    rows(["TransactionalId", "Coordinator", "ProducerId", "TransactionState"], found)


@command.command("describe")
@click.argument("transactional_id")
@bootstrap_option
def describe_(transactional_id: str, bootstrap_server: str) -> None:
    """State, producer and partitions of TRANSACTIONAL_ID."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    with cluster(bootstrap_server) as client:
        coordinator = client.coordinator(transactional_id, TRANSACTION_COORDINATOR)
        (state,) = client.call_coordinator(transactional_id, TRANSACTION_COORDINATOR, request).transaction_states
    if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise CommandError(
            f"there is no transactional id {transactional_id} (TRANSACTIONAL_ID_NOT_FOUND); "
            "`odradek transactions list` shows those that there are"
        )
    _check(state.error_code, None)
    started = None if state.transaction_start_time_ms < 0 else state.transaction_start_time_ms
    facts: dict[str, object] = {
        "CoordinatorId": coordinator.id,
        "TransactionalId": transactional_id,
        "ProducerId": state.producer_id,
        "ProducerEpoch": state.producer_epoch,
        "TransactionState": state.transaction_state,
        "TransactionTimeoutMs": state.transaction_timeout_ms,
        "CurrentTransactionStartTimeMs": started,
        "TransactionDurationMs": None if started is None else SystemClock().wall_ms() - started,
        "TopicPartitions": ",".join(f"{topic.topic}-{p}" for topic in state.topics for p in topic.partitions) or None,
    }
    rows(list(facts), [list(facts.values())])


@command.command("abort")
@bootstrap_option
@click.option("--topic", required=True)
@click.option("--partition", required=True, type=click.IntRange(0))
@click.option("--start-offset", required=True, type=click.IntRange(0), help="First offset of the open transaction.")
def abort(bootstrap_server: str, topic: str, partition: int, start_offset: int) -> None:
    """Write an abort marker for the hanging transaction that starts at an offset of a partition."""
    with cluster(bootstrap_server) as client:
        found = [
            producer
            for producer in _producers(client, topic, partition).active_producers
            if producer.current_txn_start_offset == start_offset
        ]
        if not found:
            raise CommandError(f"no open transaction of {topic}-{partition} starts at offset {start_offset}")
        marker = WritableTxnMarker(
            producer_id=found[0].producer_id,
            producer_epoch=found[0].producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
            coordinator_epoch=max(0, found[0].coordinator_epoch),
        )
        response = client.call_leader(topic, partition, WriteTxnMarkersRequest(markers=[marker]))
        _check(response.markers[0].topics[0].partitions[0].error_code, None)
    producer_id = found[0].producer_id
    say(
        f"Aborted the transaction of producer {producer_id} in {topic}-{partition}.",
        producer_id=producer_id,
        topic=topic,
        partition=partition,
        aborted=True,
    )


@command.command("find-hanging")
@bootstrap_option
@click.option("--topic", help="Only this topic.")
@click.option("--max-transaction-timeout-ms", default=900_000, show_default=True, type=click.IntRange(0))
def find_hanging(bootstrap_server: str, topic: str | None, max_transaction_timeout_ms: int) -> None:
    """Transactions open for longer than any transaction may be, that no coordinator knows of."""
    found: list[list[object]] = []
    now = SystemClock().wall_ms()
    with cluster(bootstrap_server) as client:
        known = _known_producers(client)
        for name, each in sorted(client.metadata([topic] if topic else None).topics.items()):
            _check(each.error, name)
            for partition in each.partitions:
                for producer in _producers(client, name, partition).active_producers:
                    stale = now - producer.last_timestamp > max_transaction_timeout_ms
                    if producer.current_txn_start_offset < 0 or not stale:
                        continue
                    if (name, partition) in known.get(producer.producer_id, set()):
                        continue
                    found.append(
                        [
                            name,
                            partition,
                            producer.producer_id,
                            producer.producer_epoch,
                            producer.coordinator_epoch,
                            producer.current_txn_start_offset,
                            producer.last_timestamp,
                        ]
                    )
    heads = "Topic Partition ProducerId ProducerEpoch CoordinatorEpoch StartOffset LastTimestamp"
    rows(heads.split(), found)


def _known_producers(client: ClusterClient) -> dict[int, set[tuple[str, int]]]:
    """Producer id to the partitions that its coordinator has in its open transaction."""
    known: dict[int, set[tuple[str, int]]] = {}
    for broker_id in client.brokers():
        listed = client.call_broker(broker_id, ListTransactionsRequest(duration_filter=-1)).transaction_states
        names = [state.transactional_id for state in listed]
        if not names:
            continue
        described = client.call_broker(broker_id, DescribeTransactionsRequest(transactional_ids=names))
        for state in described.transaction_states:
            partitions = {(topic.topic, p) for topic in state.topics for p in topic.partitions}
            known.setdefault(state.producer_id, set()).update(partitions)
    return known


def _producers(client: ClusterClient, topic: str, partition: int) -> PartitionResponse:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    answer: PartitionResponse = client.call_leader(topic, partition, request).topics[0].partitions[0]
    _check(answer.error_code, answer.error_message)
    return answer


def _check(code: int, message: str | None) -> None:
    if code != ErrorCode.NONE:
        raise CommandError(describe(code, message))
