"""How a fetch request relates to sessions (KIP-227): what it reads, and what of that its answer tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from broker.fetching.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    CachedPartition,
    FetchSession,
    FetchSessionCache,
    PartitionKey,
    Wanted,
    len_of,
    next_epoch,
)
from broker.fetching.standby import Standby, Watch
from broker.replication.partition import Partition
from broker.replication.results import CONSUMER_REPLICA_ID, FetchEntry, LogReadResult
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import PartitionData
from network.protocol.uuids import ZERO_UUID
from timer.purgatory import DelayedOperation

Answer = tuple[PartitionKey, PartitionData]


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
                    self._had_its_turn(cached)
            return ErrorCode.NONE, session.id, sent

    def _had_its_turn(self, cached: CachedPartition) -> None:
        """It returned data and stands at the end of the session now."""

    def throttled(self) -> int:
        return self._session.id


class FollowerContext(IncrementalContext):
    """A follower's request within a session: what rests is left out."""

    def __init__(
        self,
        session: FetchSession,
        standby: Standby[CachedPartition],
        epoch: int,
        read: dict[CachedPartition, Wanted],
        replica_id: int,
    ) -> None:
        super().__init__(session, epoch, list(read.values()))
        self._standby = standby
        self._read = read
        self._replica_id = replica_id

    def woken(self) -> Sequence[tuple[PartitionKey, FetchEntry]]:
        """What has to be read in addition, as it has ended its rest since the fetch came."""
        standby, read = self._standby, self._read
        return [
            (cached.key, (tp, cached.wanted))
            for cached in standby.members()
            if cached not in read and (tp := cached.topic_partition) is not None
        ]

    @property
    def has_resting(self) -> bool:
        """Whether the session has more than what is read."""
        return len(self._session.partitions) > len(self._read)

    def wait(self, operation: DelayedOperation, watch: Watch) -> None:
        """The fetch waits as `operation`: what wakes from now on has `watch` check it, if it still is the newest."""
        with self._session.lock:
            if self._session.epoch == next_epoch(self._epoch):
                self._standby.wait(operation, watch)

    def let_rest(self, key: PartitionKey, slot: object) -> None:
        """`is_known` of this partition was true: it need not be looked at again before something happens to it."""
        cached = self._session.partitions.get(self._session.identity(key))
        if cached is not None and isinstance(slot, Partition):
            self._standby.let_rest(cached, slot, self._replica_id)

    def sweep(self, slots: Mapping[TopicPartition, object], note: Callable[[str, int], None]) -> None:
        """Now and then: wake what should not rest, and `note` the reads that were spared, by topic."""
        if self._standby.is_due_at(self._standby.fetched_ms):
            with self._session.lock:
                cached = list(self._session.partitions.values())
            self._standby.sweep(cached, slots, self._replica_id, note)

    def _had_its_turn(self, cached: CachedPartition) -> None:
        self._standby.put_last(cached)


class FetchManager:
    """Decides what kind of fetch a request is."""

    def __init__(self, cache: FetchSessionCache) -> None:
        self._cache = cache

    def size_of(self, session_id: int) -> int:
        """Partitions of a session that its fetches look at, 0 of one that there is not."""
        session = self._cache.get(session_id)
        if session is None:
            return 0
        standby = session.standby
        if standby is None or standby.is_due_at(self._cache.wall_ms()):
            return session.cached_size
        return len(standby.active)

    def context(
        self,
        version: int,
        session_id: int,
        epoch: int,
        privileged: bool,
        wanted: Sequence[Wanted],
        forgotten: Sequence[PartitionKey],
        resolve: Callable[[bytes], str | None],
        replica_id: int = CONSUMER_REPLICA_ID,
        replica_epoch: int = -1,
    ) -> FetchContext:
        """The context of a request; `resolve` finds the name of a topic id that was unknown earlier.

        `privileged` are the brokers of the cluster: their sessions take the room of others, and partitions of these
        rest.
        """
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
            standby = session.standby if privileged else None
            looked_at: Iterable[CachedPartition] = session.partitions.values()
            if standby is not None and not standby.begin(cache.wall_ms(), replica_epoch):
                looked_at = standby.members()
            to_read: dict[CachedPartition, Wanted] = {}
            for cached in looked_at:
                key = cached.key
                if key.topic is None and key.topic_id != ZERO_UUID:
                    name = resolve(key.topic_id)
                    if name is not None:
                        key = cached.key = key._replace(topic=name)
                to_read[cached] = (key, cached.wanted)
        if empty:
            cache.remove(session_id)
            return SessionlessContext(())
        cache.touch(session)
        if standby is not None:
            return FollowerContext(session, standby, epoch, to_read, replica_id)
        return IncrementalContext(session, epoch, list(to_read.values()))
