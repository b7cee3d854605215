"""Server side of incremental fetch sessions (KIP-227).

A session remembers which partitions a fetcher wants and what it was last told of each, so that a request names only
what changed and an answer only what is new. The cache holds a bounded number of sessions in shards; when a shard is
full, old sessions give way, and a newcomer that ranks below all of them is served without one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker.replication.results import FetchPartitionData, LogReadResult
from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import PartitionData
from network.protocol.uuids import ZERO_UUID
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
    """One partition in a session: what is wanted and what was last sent."""

    __slots__ = ("high_watermark", "key", "log_start_offset", "wanted")

    def __init__(self, key: PartitionKey, wanted: FetchPartitionData) -> None:
        self.key = key
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1

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
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        privileged: bool,
        partitions: dict[tuple[str | bytes, int], CachedPartition],
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        self.id = session_id
        self.lock = threading.Lock()
        self.privileged = privileged
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = 1
        self.cached_size = len(partitions)

    def identity(self, key: PartitionKey) -> tuple[str | bytes, int]:
        if self.uses_topic_ids:
            return key.topic_id, key.partition
        return key.topic or "", key.partition

    def apply(self, wanted: Iterable[Wanted], forgotten: Iterable[PartitionKey]) -> None:
        for key, request in wanted:
            cached = self.partitions.get(self.identity(key))
            if cached is None:
                self.partitions[self.identity(key)] = CachedPartition(key, request)
            else:
                cached.wanted = request
        for key in forgotten:
            self.partitions.pop(self.identity(key), None)


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
            session = FetchSession(session_id, privileged, partitions, uses_topic_ids, now)
            shard.sessions[session_id] = session
            shard.num_partitions += session.cached_size
            return session_id


Answer = tuple[PartitionKey, PartitionData]
Wanted = tuple[PartitionKey, FetchPartitionData]


class FetchContext:
    """How one request relates to sessions: which partitions it reads, and how its answer is shaped.

    `error` is set when the request's session id or epoch does not fit; then there is nothing to read.
    """

    error = ErrorCode.NONE

    def partitions(self) -> Iterable[Wanted]:
        """What to read, in order."""
        raise NotImplementedError

    def is_known(self, key: PartitionKey, result: LogReadResult) -> bool:
        """Whether `finish` would leave out the answer of a read that found nothing, so that it need not be made."""
        return False

    def finish(self, answers: Sequence[Answer]) -> tuple[ErrorCode, int, Sequence[Answer]]:
        """(top-level error, session id, what to send of `answers`); updates the session."""
        raise NotImplementedError

    def throttled(self) -> int:
        """The session id of an empty, throttled answer."""
        return INVALID_SESSION_ID


class SessionErrorContext(FetchContext):
    def __init__(self, error: ErrorCode) -> None:
        self.error = error

    def partitions(self) -> Iterable[Wanted]:
        return ()

    def finish(self, answers: Sequence[Answer]) -> tuple[ErrorCode, int, Sequence[Answer]]:
        return self.error, INVALID_SESSION_ID, ()


class SessionlessContext(FetchContext):
    """A full fetch that wants no session."""

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self._wanted = wanted

    def partitions(self) -> Iterable[Wanted]:
        return self._wanted

    def finish(self, answers: Sequence[Answer]) -> tuple[ErrorCode, int, Sequence[Answer]]:
        return ErrorCode.NONE, INVALID_SESSION_ID, answers


class FullContext(SessionlessContext):
    """A full fetch that asks for a session; it is made while the answer is."""

    def __init__(
        self, wanted: Sequence[Wanted], cache: FetchSessionCache, privileged: bool, uses_topic_ids: bool
    ) -> None:
        super().__init__(wanted)
        self._cache = cache
        self._privileged = privileged
        self._uses_topic_ids = uses_topic_ids

    def finish(self, answers: Sequence[Answer]) -> tuple[ErrorCode, int, Sequence[Answer]]:
        wanted = dict(self._wanted)
        cached: dict[tuple[str | bytes, int], CachedPartition] = {}
        for key, answer in answers:
            entry = CachedPartition(key, wanted[key])
            entry.maybe_update(answer, update=True)
            identity: tuple[str | bytes, int]
            identity = (key.topic_id if self._uses_topic_ids else key.topic or "", key.partition)
            cached[identity] = entry
        return ErrorCode.NONE, self._cache.maybe_create(self._privileged, cached, self._uses_topic_ids), answers


class IncrementalContext(FetchContext):
    """A request within a session; the answer leaves out what has not changed."""

    def __init__(self, session: FetchSession, epoch: int, wanted: Sequence[Wanted]) -> None:
        self._session = session
        self._epoch = epoch
        self._wanted = wanted

    def partitions(self) -> Iterable[Wanted]:
        return self._wanted

    def is_known(self, key: PartitionKey, result: LogReadResult) -> bool:
        # Without the lock: only `finish` changes what was sent, and it refuses all but the newest request.
        cached = self._session.partitions.get(self._session.identity(key))
        return cached is None or (
            cached.high_watermark == result.high_watermark and cached.log_start_offset == result.log_start_offset
        )

    def finish(self, answers: Sequence[Answer]) -> tuple[ErrorCode, int, Sequence[Answer]]:
        session = self._session
        with session.lock:
            if session.epoch != next_epoch(self._epoch):
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, ()
            sent = []
            for key, answer in answers:
                identity = session.identity(key)
                cached = session.partitions.get(identity)
                if cached is None or not cached.maybe_update(answer, update=True):
                    continue
                sent.append((key, answer))
                if answer.records is not None and len_of(answer.records) > 0:
                    # What returned data goes to the end, so that it does not starve the others.
                    del session.partitions[identity]
                    session.partitions[identity] = cached
            return ErrorCode.NONE, session.id, sent

    def throttled(self) -> int:
        return self._session.id


class FetchManager:
    """Decides what kind of fetch a request is."""

    def __init__(self, cache: FetchSessionCache) -> None:
        self._cache = cache

    def size_of(self, session_id: int) -> int:
        """Partitions of a session, 0 of one that there is not."""
        session = self._cache.get(session_id)
        return 0 if session is None else session.cached_size

    def context(
        self,
        version: int,
        session_id: int,
        epoch: int,
        privileged: bool,
        wanted: Sequence[Wanted],
        forgotten: Sequence[PartitionKey],
        resolve: Callable[[bytes], str | None],
    ) -> FetchContext:
        """The context of a request; `resolve` finds the name of a topic id that was unknown earlier."""
        cache = self._cache
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != INVALID_SESSION_ID:
                cache.remove(session_id)
            if epoch == FINAL_EPOCH:
                return SessionlessContext(wanted)
            return FullContext(wanted, cache, privileged, version >= 13)
        session = cache.get(session_id)
        if session is None:
            return SessionErrorContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        with session.lock:
            if session.epoch != epoch:
                return SessionErrorContext(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            if session.uses_topic_ids != (version >= 13):
                return SessionErrorContext(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
            session.apply(wanted, forgotten)
            session.epoch = next_epoch(epoch)
            empty = not session.partitions
            to_read = []
            for cached in session.partitions.values():
                key = cached.key
                if key.topic is None and key.topic_id != ZERO_UUID:
                    name = resolve(key.topic_id)
                    if name is not None:
                        key = cached.key = key._replace(topic=name)
                to_read.append((key, cached.wanted))
        if empty:
            cache.remove(session_id)
            return SessionlessContext(())
        cache.touch(session)
        return IncrementalContext(session, epoch, to_read)
