"""Purgatories: where requests wait until a condition holds or their time is up.

A `DelayedOperation` completes exactly once, whoever comes first: the caller, a thread whose event satisfied it, or
the timer. A `Purgatory` watches operations by key. Events on a key are checked without any exclusive lock held by the
caller, otherwise two threads that complete each other's operations could dead-lock.
"""

import itertools
import threading
from _thread import RLock
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from timer.metrics import NULL_METRICS, Metrics
from timer.timer import Timer, TimerTask
from timer.worker import Worker, Workers

_SHARDS = 512
# Guards the flags of all operations: it is held for a test and a store only, and an operation is smaller and cheaper
# without a lock of its own.
_flags = threading.Lock()
_IDLE, _CHECKING, _CHECK_AGAIN = 0, 1, 2


class DelayedOperation(TimerTask):
    """Something that waits for a condition, for at most `timeout_ms`.

    Subclasses define `try_complete` and `on_complete`, and may define `on_expiration`. Checks of one operation
    never run at the same time: under `lock` where one is given (a group's operations share the group's), else by
    turns. Whoever comes while another thread checks does not wait: that thread is told to check once more.
    """

    __slots__ = ("_check", "is_completed", "lock")

    def __init__(self, timeout_ms: int, lock: RLock | None = None) -> None:
        super().__init__(timeout_ms)
        self.is_completed = False
        self.lock = lock
        self._check = _IDLE

    def force_complete(self) -> bool:
        """Complete now unless that has happened; returns whether this call did it.

        The winner leaves the timer and then runs `on_complete`. Waits for no check.
        """
        with _flags:
            if self.is_completed:
                return False
            self.is_completed = True
        self.cancel()
        self.on_complete()
        return True

    def try_complete(self) -> bool:
        """Complete if the condition holds; returns whether this call did it. Never runs twice at a time.

        Must call `force_complete` and return its answer when the condition holds, else return False.
        """
        raise NotImplementedError

    def on_complete(self) -> None:
        """What completion does: send the response. Called exactly once."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Called after `on_complete` if it was the timeout that completed the operation."""

    def safe_try_complete(self) -> bool:
        """An exclusive `try_complete`. False also if another thread is checking, which then looks once more."""
        lock = self.lock
        if lock is not None:
            with lock:
                return self.try_complete()
        with _flags:
            if self._check:
                self._check = _CHECK_AGAIN
                return False
            self._check = _CHECKING
        return self.check_by_turns()

    def check_by_turns(self) -> bool:
        """Check until nobody has asked for another look meanwhile. The caller has made `_check` CHECKING."""
        while True:
            try:
                done = self.try_complete()
            except BaseException:
                self._check = _IDLE
                raise
            with _flags:
                if done or self._check == _CHECKING:
                    self._check = _IDLE
                    return done
                self._check = _CHECKING

    def run(self) -> None:
        if self.force_complete():
            self.on_expiration()


T = TypeVar("T", bound=DelayedOperation)


class _Shard(Generic[T]):
    """The watch lists of some of the keys. Its methods are called under `lock`.

    Most keys have one operation, which then stands for itself; more stand in a dict, used as an ordered set.
    """

    __slots__ = ("lists", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lists: dict[Hashable, T | dict[T, None]] = {}

    def add(self, key: Hashable, operation: T) -> None:
        watched = self.lists.get(key)
        if watched is None:
            self.lists[key] = operation
        elif isinstance(watched, dict):
            watched[operation] = None
        elif watched is not operation:
            self.lists[key] = {watched: None, operation: None}

    def discard(self, key: Hashable, operations: Sequence[T]) -> None:
        watched = self.lists.get(key)
        if isinstance(watched, dict):
            for operation in operations:
                watched.pop(operation, None)
            if not watched:
                del self.lists[key]
        elif watched is not None and watched in operations:
            del self.lists[key]

    def pop(self, key: Hashable) -> list[T]:
        watched = self.lists.pop(key, None)
        if watched is None:
            return []
        return list(watched) if isinstance(watched, dict) else [watched]

    def size(self) -> int:
        return sum(len(watched) if isinstance(watched, dict) else 1 for watched in self.lists.values())

    def purge(self) -> int:
        """Drop completed operations; returns how many entries went."""
        purged = 0
        for key, watched in list(self.lists.items()):
            operations = list(watched) if isinstance(watched, dict) else [watched]
            completed = [operation for operation in operations if operation.is_completed]
            if completed:
                self.discard(key, completed)
                purged += len(completed)
        return purged


class Purgatory(Generic[T]):
    """Operations that wait, by key, with a timeout.

    `reaper_enabled` starts the thread that drives the timer and purges, one of `workers`; without it the owner calls
    `step`. With
    `timer_enabled=False` operations never expire. When more than `purge_interval` completed operations may still
    stand in watch lists, all lists are purged of them.
    """

    def __init__(
        self,
        name: str,
        timer: Timer,
        *,
        broker_id: int = 0,
        purge_interval: int = 1000,
        reaper_enabled: bool = True,
        timer_enabled: bool = True,
        metrics: Metrics = NULL_METRICS,
        workers: Workers | None = None,
    ) -> None:
        self.name = name
        self._timer = timer
        self._timer_enabled = timer_enabled
        self._purge_interval = purge_interval
        self._metrics = metrics
        self._shards: list[_Shard[T]] = [_Shard() for _ in range(_SHARDS)]
        # How many operations were ever watched, and how many of those are known to be gone from the lists.
        # Lock-free: a count is one step. On a free-threaded interpreter before 3.14 two threads may get one number,
        # which puts a purge off by one operation.
        self._watched_ever = itertools.count(1)
        self._gone = 0
        self._last_watched = 0
        group, type_ = "kafka.server", "DelayedOperationPurgatory"
        metrics.gauge(group, type_, "PurgatorySize", lambda: self.watched, delayedOperation=name)
        metrics.gauge(group, type_, "NumDelayedOperations", lambda: self.num_delayed, delayedOperation=name)
        self._reaper: Worker | None = None
        if reaper_enabled:
            reaper = f"ExpirationReaper-{broker_id}-{name}"
            self._reaper = Worker(reaper, self._reap, timer.clock, interrupt=timer.wakeup, workers=workers)
            self._reaper.start()

    def try_complete_else_watch(self, operation: T, keys: Sequence[Hashable], *, has_looked: bool = False) -> bool:
        """Complete `operation` now, or watch it by every key until it completes or expires.

        Returns True only if this call completed it. An event that fires between the first check and the registration
        would be missed, so it checks once more after registering: from then on every event sees the operation. That
        check is the only one if the caller `has_looked` itself whether the operation has to wait. Raises ValueError
        without a key.
        """
        if not keys:
            raise ValueError("an operation is watched by one key at least")
        if operation.lock is not None:
            with operation.lock:
                if not has_looked and operation.try_complete():
                    return True
                number = self._watch(operation, keys)
                if operation.try_complete():
                    return True
        else:
            operation._check = _CHECKING  # nobody else knows the operation yet
            if not has_looked and operation.try_complete():
                return True
            number = self._watch(operation, keys)
            if operation.check_by_turns():
                return True
        if self._timer_enabled and not operation.is_completed:
            self._timer.add(operation)
            if operation.is_completed:
                # Completed between the look and the add: leave the timer at once.
                operation.cancel()
        if number - self._gone - self._timer.size > self._purge_interval:
            self._timer.wakeup()
        return False

    def watch(self, operation: T, key: Hashable) -> None:
        """Let a key that comes later complete an operation that is watched by others; the caller sees to the look."""
        shard = self._shards[hash(key) % _SHARDS]
        with shard.lock:
            shard.add(key, operation)

    def restart(self, operation: T, timeout_ms: int) -> bool:
        """Give a watched operation a new timeout from now, in O(1); False if it is completed.

        The caller must hold whatever keeps others from completing it at the same time, or accept that one may.
        """
        if operation.is_completed:
            return False
        operation.delay_ms = timeout_ms
        if self._timer_enabled:
            self._timer.add(operation)
            if operation.is_completed:
                operation.cancel()
                return False
        return True

    @property
    def watch_lists(self) -> list[Mapping[Hashable, object]]:
        """Keys with operations, by the hash of the key, for `Watched`."""
        return [shard.lists for shard in self._shards]

    def check_and_complete(self, key: Hashable) -> int:
        """An event on `key`: try every operation watched by it; returns how many this call completed."""
        shard = self._shards[hash(key) % _SHARDS]
        with shard.lock:
            watched = shard.lists.get(key)
            if watched is None:
                return 0
            operations = list(watched) if isinstance(watched, dict) else (watched,)
        completed = 0
        finished: list[T] = []
        for operation in operations:
            if operation.is_completed:
                finished.append(operation)
                continue
            if operation.safe_try_complete():
                finished.append(operation)
                completed += 1
        if finished:
            with shard.lock:
                shard.discard(key, finished)
        return completed

    def cancel_for_key(self, key: Hashable) -> list[T]:
        """Stop watching `key`: its operations leave the timer without being completed; returns those."""
        shard = self._shards[hash(key) % _SHARDS]
        with shard.lock:
            operations = shard.pop(key)
        pending = [operation for operation in operations if not operation.is_completed]
        for operation in pending:
            operation.cancel()
        return pending

    @property
    def watched(self) -> int:
        """Entries over all watch lists: an operation counts once a key, completed ones until they are dropped."""
        total = 0
        for shard in self._shards:
            with shard.lock:
                total += shard.size()
        return total

    @property
    def timer(self) -> Timer:
        """Where its operations wait for the end of their time."""
        return self._timer

    @property
    def num_delayed(self) -> int:
        """Operations that wait in the timer."""
        return self._timer.size

    def step(self, timeout_ms: float | None = 0) -> bool:
        """One round of the reaper: let operations expire, purge if it is time; returns whether a bucket was due."""
        advanced = self._timer.advance(timeout_ms)
        delayed, watched_ever = self._timer.size, self._last_watched
        if watched_ever - self._gone - delayed > self._purge_interval:
            self._gone = watched_ever - delayed
            self.purge_completed()
        return advanced

    def purge_completed(self) -> int:
        """Drop completed operations from all lists; returns how many entries went."""
        purged = 0
        for shard in self._shards:
            with shard.lock:
                purged += shard.purge()
        return purged

    def shutdown(self) -> None:
        """Stop the reaper and the timer. Operations that wait are not completed."""
        if self._reaper is not None:
            self._reaper.stop()
        self._timer.shutdown()
        for name in ("PurgatorySize", "NumDelayedOperations"):
            self._metrics.remove("kafka.server", "DelayedOperationPurgatory", name, delayedOperation=self.name)

    def _watch(self, operation: T, keys: Sequence[Hashable]) -> int:
        """Put the operation into the list of each key; returns how many operations were ever watched."""
        for key in keys:
            shard = self._shards[hash(key) % _SHARDS]
            with shard.lock:
                shard.add(key, operation)
        number = self._last_watched = next(self._watched_ever)
        return number

    def _reap(self) -> float:
        self.step(None)
        return 0


class Watched:
    """Whether an operation may be waiting on a key: a lock-free look, for events that mostly find nobody.

    False is enough to leave `check_and_complete` out, if what the event changed can be seen already: an operation that
    is watched only after this look checks for itself once more. Of several purgatories at once, so that the key's hash
    is taken once.
    """

    def __init__(self, *purgatories: Purgatory[Any]) -> None:
        self._places = list(zip(*(purgatory.watch_lists for purgatory in purgatories), strict=True))

    def __call__(self, key: Hashable) -> bool:
        for lists in self._places[hash(key) % _SHARDS]:  # noqa: SIM110  (a generator would cost more than the look)
            if key in lists:
                return True
        return False
