"""A hierarchical timing wheel: add, cancel and expire in O(1), whatever the number of tasks.

Level n has `wheel_size` buckets of `tick_ms * wheel_size**n` ms each; levels above the lowest are made when a delay
first needs them. A bucket is a ring of doubly linked tasks. Buckets, not tasks, stand in a heap ordered by the time
at which they are due, and each enters it once a lap, so the heap holds at most levels x wheel_size entries. When the
bucket of a coarse level falls due, its tasks are put back and land in finer levels, or are due themselves.

Idea: G. Varghese, A. Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987. Nothing here locks or asks the time:
see `timer.timer`.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice


class Entry:
    """A node of a bucket's ring; tasks are nodes themselves, so that a timer allocates nothing per task.

    `_next` is None exactly when the entry is in no ring.
    """

    __slots__ = ("_next", "_prev", "expiration_ms")

    _next: "Entry | None"
    _prev: "Entry | None"
    expiration_ms: int


class Bucket(Entry):
    """The head of a ring. `expiration_ms` is when it falls due, -1 while it stands in no queue."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self._next = self
        self._prev = self
        self.expiration_ms = -1
        self.index = index

    def __iter__(self) -> Iterator[Entry]:
        entry = self._next
        while entry is not None and entry is not self:
            yield entry
            entry = entry._next

    @property
    def empty(self) -> bool:
        return self._next is self


class Level:
    """One wheel: `wheel_size` buckets of `tick_ms` each, from `current_ms` (a multiple of the tick) on."""

    __slots__ = ("buckets", "current_ms", "end_ms", "interval_ms", "tick_ms")

    def __init__(self, tick_ms: int, wheel_size: int, start_ms: int, first_index: int) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * wheel_size
        self.current_ms = start_ms - start_ms % tick_ms
        self.end_ms = self.current_ms + self.interval_ms
        self.buckets = [Bucket(first_index + slot) for slot in range(wheel_size)]


class TimingWheel:
    """The levels, their clock and the queue of buckets. Times are ms on the caller's clock. Not thread-safe."""

    __slots__ = ("_lowest", "_size", "levels", "queue", "tick_ms", "wheel_size")

    def __init__(self, tick_ms: int = 1, wheel_size: int = 20, start_ms: int = 0) -> None:
        if tick_ms < 1 or wheel_size < 2:
            raise ValueError(f"a wheel needs a tick of 1 ms and 2 buckets at least, not {tick_ms} and {wheel_size}")
        self.tick_ms = tick_ms
        self.wheel_size = wheel_size
        self._lowest = Level(tick_ms, wheel_size, start_ms, 0)
        self.levels = [self._lowest]
        # A heap of (when due, index of the bucket, bucket).
        self.queue: list[tuple[int, int, Bucket]] = []
        self._size = 0

    def __len__(self) -> int:
        """Entries in buckets (and in rings that are being put back)."""
        return self._size

    @property
    def current_ms(self) -> int:
        """The wheel's own time: the caller's, rounded down to the tick, as of the last `advance_to`."""
        return self._lowest.current_ms

    @property
    def next_due_ms(self) -> int | None:
        """When the first queued bucket falls due; None if none is queued. Emptied buckets stay queued until then."""
        return self.queue[0][0] if self.queue else None

    def insert(self, entry: Entry) -> bool:
        """Put an entry that is in no ring into the bucket of its `expiration_ms`; False if it is due already."""
        expiration = entry.expiration_ms
        level = self._lowest
        if expiration < level.current_ms + level.tick_ms:
            return False
        if expiration >= level.end_ms:
            for level in self.levels:
                if expiration < level.end_ms:
                    break
            else:
                level = self._grow(expiration)
        tick = level.tick_ms
        lap = expiration // tick
        bucket = level.buckets[lap % self.wheel_size]
        due = lap * tick
        if bucket.expiration_ms != due:
            bucket.expiration_ms = due
            heappush(self.queue, (due, bucket.index, bucket))
        tail = bucket._prev
        entry._prev = tail
        entry._next = bucket
        tail._next = bucket._prev = entry  # type: ignore[union-attr]  # a bucket's own links are never None
        self._size += 1
        return True

    def remove(self, entry: Entry) -> bool:
        """Take an entry out of whatever ring holds it; False if none does."""
        following = entry._next
        if following is None:
            return False
        previous = entry._prev
        previous._next = following  # type: ignore[union-attr]  # both links are set or neither is
        following._prev = previous
        entry._next = entry._prev = None
        self._size -= 1
        return True

    def pop_due_bucket(self, now_ms: int, into: Bucket) -> bool:
        """Move the clock to the first bucket due at `now_ms` and splice its entries onto the ring of `into`.

        They still count in `len` and can still be removed; the caller takes each out and inserts it again. Returns
        False if no bucket is due.
        """
        queue = self.queue
        if not queue or queue[0][0] > now_ms:
            return False
        due, _, bucket = heappop(queue)
        self.advance_to(due)
        bucket.expiration_ms = -1
        if not bucket.empty:
            _splice(bucket, into)
        return True

    def census(self, most: int) -> list[tuple[int, int, list[int]]]:
        """For each level: its tick, its time, and how many entries are in each bucket, counted up to `most`."""
        return [
            (level.tick_ms, level.current_ms, [_size(bucket, most) for bucket in level.buckets])
            for level in self.levels
        ]

    def catch_up(self, now_ms: int) -> None:
        """Move the clock to `now_ms` if no bucket stands between, so that what is inserted lands as fine as it can."""
        lowest = self._lowest
        if now_ms >= lowest.current_ms + lowest.tick_ms and (not self.queue or self.queue[0][0] > now_ms):
            self.advance_to(now_ms)

    def advance_to(self, now_ms: int) -> None:
        """Move the clock of each level whose next tick has come. No bucket may be due before `now_ms`."""
        for level in self.levels:
            if now_ms < level.current_ms + level.tick_ms:
                break
            level.current_ms = now_ms - now_ms % level.tick_ms
            level.end_ms = level.current_ms + level.interval_ms

    def _grow(self, expiration_ms: int) -> Level:
        """Add levels until one spans `expiration_ms`."""
        while expiration_ms >= (top := self.levels[-1]).end_ms:
            first_index = len(self.levels) * self.wheel_size
            self.levels.append(Level(top.interval_ms, self.wheel_size, top.current_ms, first_index))
        return self.levels[-1]


def _size(bucket: Bucket, most: int) -> int:
    return sum(1 for _ in islice(bucket, most))


def _splice(source: Bucket, target: Bucket) -> None:
    """Move all entries of a non-empty ring to the end of another, in O(1)."""
    first, last, tail = source._next, source._prev, target._prev
    assert first is not None
    assert last is not None
    assert tail is not None
    tail._next = first
    first._prev = tail
    last._next = target
    target._prev = last
    source._next = source._prev = source
