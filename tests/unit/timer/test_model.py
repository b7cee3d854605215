"""The timer and a purgatory against a plain model: a dict of deadlines."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from timer.clock import ManualClock
from timer.executor import InlineExecutor
from timer.purgatory import DelayedOperation, Purgatory
from timer.timer import SystemTimer, TimerTask

DELAYS = st.one_of(
    st.integers(-5, 60),
    st.integers(0, 10_000),
    st.sampled_from([19, 20, 21, 399, 400, 401, 7_999, 8_000, 8_001, 159_999, 160_000, 3_200_000]),
)


class Task(TimerTask):
    def __init__(self, delay_ms: int, fired: list["Task"]) -> None:
        super().__init__(delay_ms)
        self.fired = fired

    def run(self) -> None:
        self.fired.append(self)


class TimerMachine(RuleBasedStateMachine):
    """Every task fires once, in the tick of its deadline once the clock is advanced that far, and none is lost."""

    @initialize(tick=st.sampled_from([1, 1, 7, 100]), size=st.sampled_from([2, 3, 10, 20]), start=st.integers(0, 10**6))
    def begin(self, tick: int, size: int, start: int) -> None:
        self.clock = ManualClock(start_ms=start)
        self.tick = tick
        self.timer = SystemTimer("model", self.clock, InlineExecutor(), tick_ms=tick, wheel_size=size)
        self.fired: list[Task] = []
        self.deadlines: dict[Task, int] = {}
        self.idle: list[Task] = []

    @rule(delays=st.lists(DELAYS, min_size=1, max_size=40))
    def add(self, delays: list[int]) -> None:
        for delay in delays:
            self._add(Task(delay, self.fired))

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.deadlines:
            task = data.draw(st.sampled_from(list(self.deadlines)))
            assert task.cancel()
            assert not task.cancel()
            del self.deadlines[task]
            self.idle.append(task)

    @rule(data=st.data())
    def add_again(self, data: st.DataObject) -> None:
        known = self.idle + list(self.deadlines)
        if known:
            task = data.draw(st.sampled_from(known))
            if task in self.idle:
                self.idle.remove(task)
            task.delay_ms = data.draw(DELAYS)
            self.deadlines.pop(task, None)
            self._add(task)

    @rule(ms=st.one_of(st.integers(0, 30), st.integers(0, 9_000), st.integers(0, 4_000_000)))
    def advance(self, ms: int) -> None:
        self.clock.advance(ms)
        while self.timer.advance(0):
            pass
        self._collect()

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "timer"):
            assert self.timer.size == len(self.deadlines)

    def teardown(self) -> None:
        if hasattr(self, "timer"):
            self.advance(10_000_000)
            assert self.timer.size == 0
            assert not self.deadlines

    def _add(self, task: Task) -> None:
        self.deadlines[task] = self.clock.monotonic_ms() + task.delay_ms
        self.timer.add(task)
        self._collect(at_add=task)

    def _collect(self, at_add: Task | None = None) -> None:
        now = self.clock.monotonic_ms()
        for task in self.fired:
            deadline = self.deadlines.pop(task)  # raises if it fires twice or after a cancel
            assert deadline - self.tick < now, "fired more than a tick early"
            self.idle.append(task)
        self.fired.clear()
        if at_add is None:
            assert all(deadline > now for deadline in self.deadlines.values()), "a task is late"


class Waiter(DelayedOperation):
    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.ready = False
        self.completed = 0
        self.expired = 0

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.completed += 1

    def on_expiration(self) -> None:
        assert self.completed == 1
        self.expired += 1


class PurgatoryMachine(RuleBasedStateMachine):
    """Operations watched by several keys complete once: by an event on any of their keys, or at their deadline."""

    @initialize(interval=st.integers(0, 30))
    def begin(self, interval: int) -> None:
        self.clock = ManualClock()
        self.purgatory: Purgatory[Waiter] = Purgatory(
            "Model", SystemTimer("model", self.clock, InlineExecutor()), reaper_enabled=False, purge_interval=interval
        )
        self.interval = interval
        self.pending: dict[Waiter, tuple[int, list[int]]] = {}
        self.keys_watched = 0

    @rule(timeout=st.integers(1, 5_000), keys=st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True))
    def watch(self, timeout: int, keys: list[int]) -> None:
        operation = Waiter(timeout)
        assert not self.purgatory.try_complete_else_watch(operation, keys)
        self.pending[operation] = (self.clock.monotonic_ms() + timeout, keys)

    @rule(data=st.data())
    def become_ready(self, data: st.DataObject) -> None:
        if self.pending:
            data.draw(st.sampled_from(list(self.pending))).ready = True

    @rule(key=st.integers(0, 6))
    def event(self, key: int) -> None:
        expected = [operation for operation, (_, keys) in self.pending.items() if operation.ready and key in keys]
        assert self.purgatory.check_and_complete(key) == len(expected)
        for operation in expected:
            assert (operation.completed, operation.expired) == (1, 0)
            del self.pending[operation]

    @rule(ms=st.one_of(st.integers(0, 50), st.integers(0, 6_000)))
    def advance(self, ms: int) -> None:
        self.clock.advance(ms)
        while self.purgatory.step():
            pass
        now = self.clock.monotonic_ms()
        for operation in [operation for operation, (deadline, _) in self.pending.items() if deadline <= now]:
            assert (operation.completed, operation.expired) == (1, 1)
            del self.pending[operation]

    @invariant()
    def none_is_lost(self) -> None:
        if hasattr(self, "purgatory"):
            assert self.purgatory.num_delayed == len(self.pending)
            assert all(operation.completed == 0 for operation in self.pending)
            assert self.purgatory.watched >= sum(len(keys) for _, keys in self.pending.values())

    def teardown(self) -> None:
        if hasattr(self, "purgatory"):
            self.advance(6_000)
            assert not self.pending
            self.purgatory.purge_completed()
            assert self.purgatory.watched == 0


_SETTINGS = settings(
    max_examples=60, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestTimerModel = TimerMachine.TestCase
TestTimerModel.settings = _SETTINGS
TestPurgatoryModel = PurgatoryMachine.TestCase
TestPurgatoryModel.settings = _SETTINGS
