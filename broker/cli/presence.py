"""Whether what a command line names is there: brokers, topics, partitions; one line that says what is not."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from broker.cli.cures import CURES
from broker.cli.errors import CommandError
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ErrorCode


def no_topics(names: Iterable[str]) -> str:
    """What is said of topics that are not there."""
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return f"there is no topic {', '.join(sorted(names))} ({code.name}); {CURES[code]}"


def no_brokers(wanted: Collection[int], running: Collection[int]) -> str | None:
    """What is said of brokers that do not run; None if all do."""
    missing = sorted(set(wanted) - set(running))
    if not missing:
        return None
    return f"there is no broker {_ids(missing)}; those that run: {_ids(sorted(running))}"


def check_targets(client: ClusterClient, wanted: Collection[int]) -> None:
    """For brokers that shall hold replicas. Raises CommandError with those that do not run."""
    missing = sorted(set(wanted) - client.brokers().keys())
    if missing:
        raise CommandError(f"brokers that do not run: {_ids(missing)}; start them, or name others")


def _ids(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))
