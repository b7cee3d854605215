"""Readers by script: of what is committed, from the beginning and for ever, and with commits of how far they are."""

from __future__ import annotations

from log.records.record import iter_records
from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from network.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.simulation.real.brokers import Cluster
from tests.simulation.real.client import GROUP, Client
from tests.simulation.real.history import History
from tests.support.batches import iter_batches


def fetch_request(topic: str, partition: int, epoch: int, offset: int, size: int, isolation: int = 0) -> FetchRequest:
    """For up to `size` bytes of one partition."""
    wanted = FetchPartition(
        partition=partition, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=size
    )
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    return FetchRequest(max_wait_ms=100, min_bytes=1, isolation_level=isolation, topics=topics)


class Reader(Client):
    """Reads one partition, from its beginning to as far as it is committed, for ever; with a group it commits how far
    it is, and asks for it again."""

    def __init__(
        self, cluster: Cluster, name: str, history: History, topic: str, partition: int, isolation: int = 0
    ) -> None:
        super().__init__(cluster, name, history)
        self.topic = topic
        self.partition = partition
        self.isolation = isolation
        self.offset = 0
        self._high_watermark: tuple[object, int] = (None, -1)
        self.group: str | None = None
        self.committed = -1

    def work(self) -> None:
        while not self.stopping:
            self.until(self.read)
            if self.group is not None and self.rng.random() < 0.3 and self.more():
                self.until(self._commit)
                self.until(self._committed)
            self.pause(self.rng.randint(1, 60))

    def read(self) -> bool | None:
        """Once, as far as there is something; the answer is where it ends."""
        leader, epoch = self.leader_and_epoch(self.topic, self.partition)
        size = self.rng.choice((300, 9000))
        request = fetch_request(self.topic, self.partition, epoch, self.offset, size, self.isolation)
        answer = self.ask(leader, request, 11).responses[0].partitions[0]
        code = ErrorCode.of(answer.error_code)
        where = f"{self.topic}-{self.partition}"
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.history.out_of_range(where, self.offset, answer.high_watermark)
        if code is not ErrorCode.NONE:
            return None
        self._check_high_watermark(where, (self.connection(leader), epoch), answer.high_watermark)
        aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
        skipped: set[int] = set()
        for batch in iter_batches(memoryview(bytes(answer.records or b""))):
            while aborted and aborted[0][0] <= batch.last_offset:
                skipped.add(aborted.pop(0)[1])
            if batch.is_control:
                skipped.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in skipped):
                for record in iter_records(batch):
                    if record.offset >= self.offset:
                        self.took(record.offset, record.value or b"")
            self.offset = max(self.offset, batch.last_offset + 1)
        return True

    def _check_high_watermark(self, where: str, told_by: object, now: int) -> None:
        """A leader's does not go back in its epoch. One that was killed and leads on begins with an older one."""
        known_by, known = self._high_watermark
        if told_by == known_by and now < known:
            self.history.broken(f"the high watermark of {where} went from {known} to {now} in one epoch")
        self._high_watermark = told_by, now

    def took(self, offset: int, value: bytes) -> None:
        self.history.read(self.topic, self.partition, offset, value, self.isolation)

    def _commit(self) -> bool | None:
        assert self.group is not None
        partition = OffsetCommitRequestPartition(partition_index=self.partition, committed_offset=self.offset)
        topics = [OffsetCommitRequestTopic(name=self.topic, partitions=[partition])]
        request = OffsetCommitRequest(group_id=self.group, topics=topics)
        answer = self.ask(self.coordinator(self.group, GROUP), request, 7)
        if answer.topics[0].partitions[0].error_code:
            return None
        self.committed = self.offset
        return True

    def _committed(self) -> bool | None:
        assert self.group is not None
        topics = [OffsetFetchRequestTopics(name=self.topic, partition_indexes=[self.partition])]
        groups = [OffsetFetchRequestGroup(group_id=self.group, topics=topics)]
        coordinator = self.coordinator(self.group, GROUP)
        answer = self.ask(coordinator, OffsetFetchRequest(groups=groups), 8).groups[0]
        if answer.error_code or answer.topics[0].partitions[0].error_code:
            return None
        if not self.cluster.coordinates(self.group, coordinator):
            return None
        offset = answer.topics[0].partitions[0].committed_offset
        if offset != self.committed:
            self.history.broken(f"{self.name} committed {self.committed} and is told {offset}")
        return True


class LastReader(Reader):
    """Reads all of it again when everything is quiet."""

    def took(self, offset: int, value: bytes) -> None:
        super().took(offset, value)
        self.history.last.setdefault((self.topic, self.partition), {})[offset] = value
