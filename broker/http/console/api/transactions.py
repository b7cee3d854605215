"""Transactional ids and their transactions."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from broker.http.console.access import Problem
from broker.http.console.api.question import Question
from broker.http.console.api.reading import ask_each
from network.client.cluster_client import TRANSACTION_COORDINATOR, ClusterClient
from network.protocol.errors import ErrorCode
from network.protocol.messages.describe_transactions import DescribeTransactionsRequest
from network.protocol.messages.list_transactions import ListTransactionsRequest


def transactions(client: ClusterClient, _question: Question) -> Any:
    """A row for each transactional id: id, producer id, state, coordinator."""
    answers, silent = ask_each(client, client.brokers(), ListTransactionsRequest())
    found = {
        each.transactional_id: [each.transactional_id, each.producer_id, each.transaction_state, broker_id]
        for broker_id, answer in answers.items()
        for each in answer.transaction_states
    }
    return {"transactions": [row for _, row in sorted(found.items())], "silent": silent}


def transaction(client: ClusterClient, question: Question) -> Any:
    """One transactional id: its producer, and the partitions of the transaction that is open."""
    name = question.text("id")
    request = DescribeTransactionsRequest(transactional_ids=[name])
    (found,) = client.call_coordinator(name, TRANSACTION_COORDINATOR, request).transaction_states
    if found.error_code:
        error = ErrorCode.of(found.error_code)
        raise Problem(HTTPStatus.NOT_FOUND, error.name, error.message)
    return {
        "id": name,
        "state": found.transaction_state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.transaction_timeout_ms,
        "started_ms": found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None,
        "coordinator": client.coordinator(name, TRANSACTION_COORDINATOR).id,
        "partitions": [[each.topic, number] for each in found.topics for number in each.partitions],
    }
