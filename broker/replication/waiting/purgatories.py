"""The replica manager's purgatories, and what checks them."""

from __future__ import annotations

from collections.abc import Hashable

from log.topic_partition import TopicPartition
from timer.metrics import Metrics
from timer.purgatory import DelayedOperation, Purgatory, Watched
from timer.timer import Timer
from timer.worker import Workers


class DelayedOperations:
    """Operations that wait for a partition. Keys are topic partitions, and the followers of `awaited_followers`."""

    def __init__(
        self,
        timers: dict[str, Timer],
        purge_intervals: dict[str, int],
        metrics: Metrics,
        broker_id: int = 0,
        workers: Workers | None = None,
    ) -> None:
        def purgatory(name: str) -> Purgatory[DelayedOperation]:
            interval = purge_intervals.get(name, 1000)
            return Purgatory(
                name, timers[name], broker_id=broker_id, purge_interval=interval, metrics=metrics, workers=workers
            )

        self.produce = purgatory("Produce")
        self.fetch = purgatory("Fetch")
        self.delete_records = purgatory("DeleteRecords")
        self.elect_leader = purgatory("ElectLeader")
        self.is_watched = Watched(self.fetch, self.produce, self.delete_records)
        """Whether `check_all` of a partition has anything to look at."""

    @property
    def num_delete_records(self) -> int:
        return self.delete_records.num_delayed

    def check_all(self, topic_partition: TopicPartition) -> None:
        """After a move of the high or low watermark."""
        self.fetch.check_and_complete(topic_partition)
        self.produce.check_and_complete(topic_partition)
        self.delete_records.check_and_complete(topic_partition)

    def check_produce_and_fetch(self, topic_partition: TopicPartition) -> None:
        """After the partition was stopped, or became a follower."""
        self.produce.check_and_complete(topic_partition)
        self.fetch.check_and_complete(topic_partition)

    def check_fetches_of(self, follower: Hashable) -> None:
        """After this broker has come to lead more that the follower has."""
        self.fetch.check_and_complete(follower)

    def shutdown(self) -> None:
        """Stop the timers; what still waits is not completed."""
        for purgatory in (self.produce, self.fetch, self.delete_records, self.elect_leader):
            purgatory.shutdown()
