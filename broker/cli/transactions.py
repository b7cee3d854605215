"""``odradek transactions``: look at transactions, and end those that hang."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table

from broker.cli.client import bootstrap_option, cluster, describe
from broker.cli.errors import CommandError
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
    table = _table("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
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
                table.add_row(state.transactional_id, str(broker_id), str(state.producer_id), state.transaction_state)
    _print(table)


@command.command("describe")
@click.argument("transactional_id")
@bootstrap_option
def describe_(transactional_id: str, bootstrap_server: str) -> None:
    """State, producer and partitions of TRANSACTIONAL_ID."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    with cluster(bootstrap_server) as client:
        coordinator = client.coordinator(transactional_id, TRANSACTION_COORDINATOR)
        (state,) = client.call_coordinator(transactional_id, TRANSACTION_COORDINATOR, request).transaction_states
    _check(state.error_code, None)
    started = state.transaction_start_time_ms
    duration = "" if started < 0 else str(SystemClock().wall_ms() - started)
    partitions = ",".join(f"{topic.topic}-{p}" for topic in state.topics for p in topic.partitions)
    table = _table(
        "CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions",
    )  # fmt: skip
    table.add_row(
        str(coordinator.id), transactional_id, str(state.producer_id), str(state.producer_epoch),
        state.transaction_state, str(state.transaction_timeout_ms), "" if started < 0 else str(started),
        duration, partitions,
    )  # fmt: skip
    _print(table)


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
    click.echo(f"Aborted the transaction of producer {found[0].producer_id} in {topic}-{partition}.")


@command.command("find-hanging")
@bootstrap_option
@click.option("--topic", help="Only this topic.")
@click.option("--max-transaction-timeout-ms", default=900_000, show_default=True, type=click.IntRange(0))
def find_hanging(bootstrap_server: str, topic: str | None, max_transaction_timeout_ms: int) -> None:
    """Transactions open for longer than any transaction may be, that no coordinator knows of."""
    table = _table(
        "Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp"
    )
    now = SystemClock().wall_ms()
    with cluster(bootstrap_server) as client:
        known = _known_producers(client)
        for name, found in sorted(client.metadata([topic] if topic else None).topics.items()):
            _check(found.error, name)
            for partition in found.partitions:
                for producer in _producers(client, name, partition).active_producers:
                    stale = now - producer.last_timestamp > max_transaction_timeout_ms
                    if producer.current_txn_start_offset < 0 or not stale:
                        continue
                    if (name, partition) in known.get(producer.producer_id, set()):
                        continue
                    table.add_row(
                        name, str(partition), str(producer.producer_id), str(producer.producer_epoch),
                        str(producer.coordinator_epoch), str(producer.current_txn_start_offset),
                        str(producer.last_timestamp),
                    )  # fmt: skip
    _print(table)


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


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _print(table: Table) -> None:
    console = Console()
    # Piped output is for programs: never cut.
    console.print(table, width=None if console.is_terminal else 10_000)
