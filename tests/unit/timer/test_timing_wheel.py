"""Where the arithmetic says that a task lands, and that it comes down level by level and fires at its time."""

import pytest

from timer.timing_wheel import Bucket, Entry, TimingWheel


def entry(expiration_ms: int) -> Entry:
    made = Entry()
    made._next = made._prev = None
    made.expiration_ms = expiration_ms
    return made


def place(wheel: TimingWheel, wanted: Entry) -> tuple[int, int] | None:
    """(level, slot) of an entry, None if it is in no bucket."""
    for number, level in enumerate(wheel.levels):
        for slot, bucket in enumerate(level.buckets):
            if any(found is wanted for found in bucket):
                return number, slot
    return None


def drive(wheel: TimingWheel, now_ms: int) -> list[Entry]:
    """Advance the way a timer does; returns what fell due, in order."""
    ring, expired = Bucket(-1), []
    while wheel.pop_due_bucket(now_ms, ring):
        while not ring.empty:
            first = next(iter(ring))
            assert wheel.remove(first)
            if not wheel.insert(first):
                expired.append(first)
    return expired


@pytest.mark.parametrize(
    ("tick", "size", "delay", "expected"),
    [
        (1, 20, 2, (0, 2)),
        (1, 20, 350, (1, 17)),
        (1, 20, 450, (2, 1)),
        (1, 20, 500, (2, 1)),
        (1, 20, 8_000, (3, 1)),
        (1, 20, 30_000, (3, 3)),
        (100, 10, 90, None),
        (100, 10, 610, (0, 6)),
        (100, 10, 1_610, (1, 1)),
    ],
)
def test_delay_lands_where_the_arithmetic_says(
    tick: int, size: int, delay: int, expected: tuple[int, int] | None
) -> None:
    wheel = TimingWheel(tick, size)
    task = entry(delay)
    assert wheel.insert(task) is (expected is not None)
    assert place(wheel, task) == expected


def test_a_thirty_second_timeout_is_in_the_fourth_level_and_comes_down() -> None:
    wheel = TimingWheel()
    task = entry(30_000)
    wheel.insert(task)
    assert len(wheel.levels) == 4
    seen = [place(wheel, task)]
    for now in range(30_000):
        assert drive(wheel, now) == []
        if place(wheel, task) != seen[-1]:
            seen.append(place(wheel, task))
    # 24,000 = 3 x 8,000; 6,000 more = 15 x 400, which is exact, so the task is due with that bucket.
    assert seen == [(3, 3), (2, 15)]
    assert drive(wheel, 30_000) == [task]
    assert len(wheel) == 0


def test_classic_delays_fire_at_their_time_and_in_order() -> None:
    wheel = TimingWheel()
    tasks = {delay: entry(delay) for delay in (500, 2, 8_000, 350, 450)}
    for task in tasks.values():
        wheel.insert(task)
    fired = {}
    for now in range(9_000):
        for task in drive(wheel, now):
            fired[task.expiration_ms] = now
    assert fired == {2: 2, 350: 350, 450: 450, 500: 500, 8_000: 8_000}


def test_coarse_tick_never_fires_later_than_its_tick_and_never_a_tick_early() -> None:
    wheel = TimingWheel(100, 10)
    tasks = [entry(delay) for delay in (610, 1_610)]
    for task in tasks:
        wheel.insert(task)
    fired = {}
    for now in range(2_000):
        for task in drive(wheel, now):
            fired[task.expiration_ms] = now
    assert fired == {610: 600, 1_610: 1_600}


def test_a_bucket_is_queued_once_a_lap() -> None:
    wheel = TimingWheel()
    for _ in range(1_000):
        task = entry(350)
        wheel.insert(task)
        wheel.remove(task)
    wheel.insert(entry(351))
    assert len(wheel.queue) == 1
    drive(wheel, 351)
    wheel.insert(entry(351 + 350))
    assert len(wheel.queue) == 1


def test_queue_is_bounded_by_the_number_of_buckets() -> None:
    wheel = TimingWheel()
    for delay in range(1, 160_000):
        wheel.insert(entry(delay))
    assert len(wheel) == 159_999
    assert len(wheel.levels) == 4
    assert len(wheel.queue) <= 4 * 20


def test_remove_is_exact_and_idempotent() -> None:
    wheel = TimingWheel()
    tasks = [entry(delay) for delay in range(1, 1_000)]
    for task in tasks:
        wheel.insert(task)
    for task in tasks[::2]:
        assert wheel.remove(task)
        assert not wheel.remove(task)
    assert len(wheel) == len(tasks[1::2])
    assert drive(wheel, 1_000) == tasks[1::2]


@pytest.mark.parametrize(("tick", "size"), [(0, 20), (1, 1), (-1, 20)])
def test_nonsense_wheels_are_refused(tick: int, size: int) -> None:
    with pytest.raises(ValueError, match="a wheel needs"):
        TimingWheel(tick, size)


def test_a_census_counts_what_is_in_each_bucket_up_to_a_bound() -> None:
    wheel = TimingWheel(1, 4, 0)
    for expiration in (1, 1, 1, 3, 9, 30):
        entry = Entry()
        entry._next = entry._prev = None
        entry.expiration_ms = expiration
        assert wheel.insert(entry)
    assert wheel.census(100) == [(1, 0, [0, 3, 0, 1]), (4, 0, [0, 0, 1, 0]), (16, 0, [0, 1, 0, 0])]
    assert wheel.census(2)[0] == (1, 0, [0, 2, 0, 1])
