"""Server side of incremental fetch sessions (KIP-227).

A session remembers which partitions a fetcher wants and what it was last told of each, so that a request names only
what changed and an answer only what is new. The cache holds a bounded number of sessions in shards; when a shard is
full, old sessions give way, and a newcomer that ranks below all of them is served without one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from broker.fetching.standby import Standby
from broker.replication.results import FetchPartitionData
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import PartitionData
from timer.chance import Chance
from timer.clock import Clock
from timer.metrics import Metrics

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NUM_SHARDS = 8
EVICTION_MS = 120_000
_MAX_INT = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """The session epoch after `epoch`: 1 after the largest, and -1 stays."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_INT else epoch + 1


class PartitionKey(NamedTuple):
    """A partition as the fetcher names it: by name, or by id (the name then is what the broker knows, or `None`)."""

    topic: str | None
    topic_id: bytes
    partition: int


class CachedPartition:
    """One partition in a session: what is wanted and what was last sent.

    In a follower's session it is also what a `RemoteReplica` holds while the partition rests.
    """

    __slots__ = ("high_watermark", "key", "left_ms", "log_start_offset", "standby", "wanted")

    def __init__(self, key: PartitionKey, wanted: FetchPartitionData) -> None:
        self.key = key
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1
        self.standby: Standby[CachedPartition] | None = None
        """That of its session if it is a follower's, and while it is in it."""
        self.left_ms = 0

    @property
    def topic_partition(self) -> TopicPartition | None:
        topic, _, number = self.key
        return None if topic is None else TopicPartition(topic, number)

    @property
    def is_member(self) -> bool:
        return self.standby is not None

    @property
    def fetched_ms(self) -> int:
        standby = self.standby
        return self.left_ms if standby is None else standby.fetched_ms

    def end(self, topic_partition: TopicPartition) -> None:
        standby = self.standby
        if standby is not None:
            standby.wake(self, topic_partition)

    def maybe_update(self, answer: PartitionData, *, update: bool) -> bool:
        """Whether the fetcher has to hear of `answer`; with `update`, remember that it did."""
        must = bool(answer.records is not None and len_of(answer.records) > 0)
        if self.high_watermark != answer.high_watermark:
            must = True
            if update:
                self.high_watermark = answer.high_watermark
        if self.log_start_offset != answer.log_start_offset:
            must = True
            if update:
                self.log_start_offset = answer.log_start_offset
        if answer.preferred_read_replica != -1:
            must = True
        if answer.error_code != ErrorCode.NONE:
            must = True
            if update:
                self.high_watermark = -1  # so that the next good answer is sent in full
        if answer.diverging_epoch.epoch >= 0:
            must = True
        return must


def len_of(records: object) -> int:
    size = getattr(records, "size", None)
    return size if isinstance(size, int) else len(records)  # type: ignore[arg-type]


class FetchSession:
    """One session. `lock` guards everything but `id`."""

    __slots__ = (
        "cached_size",
        "created_ms",
        "epoch",
        "id",
        "last_used_ms",
        "lock",
        "partitions",
        "privileged",
        "standby",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        privileged: bool,
        partitions: dict[tuple[str | bytes, int], CachedPartition],
        uses_topic_ids: bool,
        now_ms: int,
        standby: Standby[CachedPartition] | None = None,
    ) -> None:
        """`standby` is that of a follower's session, with all of `partitions` active."""
        self.id = session_id
        self.lock = threading.Lock()
        self.privileged = privileged
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = 1
        self.cached_size = len(partitions)
        self.standby = standby
        for cached in partitions.values():
            cached.standby = standby

    def identity(self, key: PartitionKey) -> tuple[str | bytes, int]:
        if self.uses_topic_ids:
            return key.topic_id, key.partition
        return key.topic or "", key.partition

    def apply(self, wanted: Iterable[Wanted], forgotten: Iterable[PartitionKey]) -> None:
        standby = self.standby
        for key, request in wanted:
            cached = self.partitions.get(self.identity(key))
            if cached is None:
                cached = self.partitions[self.identity(key)] = CachedPartition(key, request)
                cached.standby = standby
            else:
                cached.wanted = request
            if standby is not None:
                standby.active[cached] = None
        for key in forgotten:
            cached = self.partitions.pop(self.identity(key), None)
            if cached is not None and standby is not None:
                cached.left_ms = standby.fetched_ms
                cached.standby = None
                standby.active.pop(cached, None)


@dataclass(slots=True)
class _Shard:
    """A part of the cache with its own lock and id range."""

    lock: threading.Lock
    sessions: dict[int, FetchSession]  # in order of last use, oldest first
    max_entries: int
    first_id: int
    last_id: int
    evictions: int = 0
    num_partitions: int = 0

    def get(self, session_id: int) -> FetchSession | None:
        with self.lock:
            return self.sessions.get(session_id)

    def remove(self, session: FetchSession) -> None:
        with self.lock:
            if self.sessions.pop(session.id, None) is not None:
                self.num_partitions -= session.cached_size

    def touch(self, session: FetchSession, now_ms: int) -> None:
        with self.lock:
            if self.sessions.pop(session.id, None) is None:
                return
            session.last_used_ms = now_ms
            self.sessions[session.id] = session
            self.num_partitions += len(session.partitions) - session.cached_size
            session.cached_size = len(session.partitions)

    def try_evict(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Make room for a newcomer if the rules allow it. Call under `lock`."""
        oldest = next(iter(self.sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self._evict(oldest)
            return True
        candidates = [
            session
            for session in self.sessions.values()
            if now_ms - session.created_ms > EVICTION_MS or (privileged and not session.privileged)
        ]
        victim = min(
            candidates, key=lambda session: (session.privileged, session.cached_size, session.id), default=None
        )
        if victim is None or (privileged, size) < (victim.privileged, victim.cached_size):
            return False
        self._evict(victim)
        return True

    def _evict(self, session: FetchSession) -> None:
        del self.sessions[session.id]
        self.num_partitions -= session.cached_size
        self.evictions += 1


class FetchSessionCache:
    """All sessions of a broker: at most `slots`, over eight shards; the session id tells the shard."""

    def __init__(self, slots: int, clock: Clock, chance: Chance, metrics: Metrics) -> None:
        self._clock = clock
        self._chance = chance
        width = _MAX_INT // NUM_SHARDS
        self._shards = [
            _Shard(threading.Lock(), {}, slots // NUM_SHARDS, max(1, i * width), (i + 1) * width - 1)
            for i in range(NUM_SHARDS)
        ]
        self._width = width
        self._next_shard = 0
        group, type_ = "kafka.server", "FetchSessionCache"
        metrics.gauge(group, type_, "NumIncrementalFetchSessions", lambda: float(self.num_sessions))
        metrics.gauge(group, type_, "NumIncrementalFetchPartitionsCached", lambda: float(self.num_partitions))
        metrics.gauge(group, type_, "IncrementalFetchSessionEvictionsPerSec", lambda: float(self.evictions))

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    @property
    def num_sessions(self) -> int:
        return sum(len(shard.sessions) for shard in self._shards)

    @property
    def num_partitions(self) -> int:
        return sum(shard.num_partitions for shard in self._shards)

    @property
    def evictions(self) -> int:
        return sum(shard.evictions for shard in self._shards)

    def _shard_of(self, session_id: int) -> _Shard:
        return self._shards[min(session_id // self._width, NUM_SHARDS - 1)]

    def get(self, session_id: int) -> FetchSession | None:
        return None if session_id <= 0 else self._shard_of(session_id).get(session_id)

    def remove(self, session_id: int) -> None:
        session = self.get(session_id)
        if session is not None:
            self._shard_of(session_id).remove(session)

    def touch(self, session: FetchSession) -> None:
        self._shard_of(session.id).touch(session, self._clock.monotonic_ms())

    def maybe_create(
        self,
        privileged: bool,
        partitions: dict[tuple[str | bytes, int], CachedPartition],
        uses_topic_ids: bool,
    ) -> int:
        """The id of a new session, or 0 if there is no room for one."""
        now = self._clock.monotonic_ms()
        # Lock-free: two threads that get the same shard take turns there.
        shard = self._shards[self._next_shard % NUM_SHARDS]
        self._next_shard += 1
        with shard.lock:
            if len(shard.sessions) >= shard.max_entries and not shard.try_evict(privileged, len(partitions), now):
                return INVALID_SESSION_ID
            session_id = self._chance.randrange(shard.first_id, shard.last_id + 1)
            while session_id in shard.sessions:
                session_id = self._chance.randrange(shard.first_id, shard.last_id + 1)
            standby = Standby(partitions.values(), self._clock.wall_ms()) if privileged else None
            session = FetchSession(session_id, privileged, partitions, uses_topic_ids, now, standby)
            shard.sessions[session_id] = session
            shard.num_partitions += session.cached_size
            return session_id


Wanted = tuple[PartitionKey, FetchPartitionData]
