"""The controller's event thread: one queue, one event at a time, no priorities.

ZooKeeper watches, broker answers and request handlers only enqueue. The queue needs no bound of its own: a watch
fires once until an event re-arms it, a broker has one controller request in flight, and a client connection one.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from timer.metrics import NULL_METRICS
from timer.worker import Worker, Workers

if TYPE_CHECKING:
    from timer.clock import Clock
    from timer.metrics import Histogram, Metrics

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_MS = 10_000
_MS = 1_000_000


class ControllerState(Enum):
    """What the controller is doing: its metric value and the name of its timer (none: not timed)."""

    IDLE = 0, None
    CONTROLLER_CHANGE = 1, "ControllerChangeRateAndTimeMs"
    BROKER_CHANGE = 2, "LeaderElectionRateAndTimeMs"
    TOPIC_CHANGE = 3, "TopicChangeRateAndTimeMs"
    TOPIC_DELETION = 4, "TopicDeletionRateAndTimeMs"
    ALTER_PARTITION_REASSIGNMENT = 5, "PartitionReassignmentRateAndTimeMs"
    AUTO_LEADER_BALANCE = 6, "AutoLeaderBalanceRateAndTimeMs"
    MANUAL_LEADER_BALANCE = 7, "ManualLeaderBalanceRateAndTimeMs"
    CONTROLLED_SHUTDOWN = 8, "ControlledShutdownRateAndTimeMs"
    ISR_CHANGE = 9, "IsrChangeRateAndTimeMs"
    LEADER_AND_ISR_RESPONSE = 10, "LeaderAndIsrResponseReceivedRateAndTimeMs"
    LOG_DIR_CHANGE = 11, "LogDirChangeRateAndTimeMs"
    CONTROLLER_SHUTDOWN = 12, "ControllerShutdownRateAndTimeMs"
    UNCLEAN_LEADER_ELECTION_ENABLE = 13, "UncleanLeaderElectionEnableRateAndTimeMs"
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14, "TopicUncleanLeaderElectionEnableRateAndTimeMs"
    LIST_PARTITION_REASSIGNMENT = 15, "ListPartitionReassignmentRateAndTimeMs"
    UPDATE_METADATA_RESPONSE = 16, None
    UPDATE_FEATURES = 17, "UpdateFeaturesRateAndTimeMs"

    @property
    def number(self) -> int:
        return int(self.value[0])

    @property
    def timer(self) -> str | None:
        name: str | None = self.value[1]
        return name


# Rare events whose duration is told in the log: clients wait for what they decide.
_TOLD = frozenset({ControllerState.CONTROLLER_CHANGE, ControllerState.BROKER_CHANGE, ControllerState.TOPIC_CHANGE})


class Event:
    """Something to be processed by the event thread, or preempted (dropped from the queue): exactly one of both."""

    __slots__ = ("_preempt", "_process", "_taken", "enqueued_ns", "name", "started", "state")

    def __init__(
        self,
        name: str,
        state: ControllerState,
        process: Callable[[], None],
        preempt: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.state = state
        self._process = process
        self._preempt = preempt
        self._taken = False
        self.enqueued_ns = 0
        self.started = threading.Event()

    def process(self) -> None:
        if self._taken:
            return
        self._taken = True
        self.started.set()
        self._process()

    def preempt(self) -> None:
        if self._taken:
            return
        self._taken = True
        self.started.set()
        if self._preempt is not None:
            self._preempt()

    def __repr__(self) -> str:
        return f"Event({self.name})"


class ControllerEventManager:
    """The queue and its thread. `step()` processes one event, for those who drive it themselves."""

    def __init__(
        self,
        clock: Clock,
        on_error: Callable[[Event, Exception], None],
        metrics: Metrics = NULL_METRICS,
        waited_ns: Callable[[], int] = lambda: 0,
        workers: Workers | None = None,
    ) -> None:
        """`on_error` is called, on the event thread, with what an event's processing raised.

        `waited_ns` tells how long the thread that asks has waited for ZooKeeper so far.
        """
        self._clock = clock
        self._on_error = on_error
        self._waited_ns = waited_ns
        self._queue: deque[Event] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._worker = Worker("controller-event-thread", self.step, clock, workers=workers)
        self.state = ControllerState.IDLE
        self.on_processed: Callable[[str, float, float], None] | None = None
        """Told of an event that is over, while somebody looks on: its name, the ms that it waited and took."""
        group, type_ = "kafka.controller", "ControllerEventManager"
        self._queue_time = metrics.histogram(group, type_, "EventQueueTimeMs")
        metrics.gauge(group, type_, "EventQueueSize", lambda: len(self._queue))
        self._timers: dict[str, Histogram] = {
            state.timer: metrics.histogram("kafka.controller", "ControllerStats", state.timer)
            for state in ControllerState
            if state.timer is not None
        }

    def start(self) -> None:
        """Start the thread. Without it, `step()` has to be called."""
        self._worker.start()

    @property
    def threaded(self) -> bool:
        return self._worker.is_started

    def waiting(self) -> list[str]:
        """The names of the events that are queued, the next one first."""
        with self._lock:
            return [event.name for event in self._queue]

    def put(self, event: Event) -> None:
        """Enqueue; after `close` the event is preempted at once."""
        with self._lock:
            closed = self._closed
            if not closed:
                event.enqueued_ns = self._clock.monotonic_ns()
                self._queue.append(event)
        if closed:
            event.preempt()
        else:
            self._worker.wake()

    def clear_and_put(self, event: Event) -> None:
        """Preempt everything that is queued and enqueue `event` alone."""
        with self._lock:
            dropped = list(self._queue)
            self._queue.clear()
            closed = self._closed
            if not closed:
                event.enqueued_ns = self._clock.monotonic_ns()
                self._queue.append(event)
        for item in dropped:
            _guarded_preempt(item)
        if closed:
            event.preempt()
        else:
            self._worker.wake()

    def await_start(self, event: Event) -> None:
        """Block until the processing of `event` starts: what ran before it has ended then."""
        if not self.threaded:
            while not event.started.is_set() and self.step() is not None:
                pass
            return
        if self._worker.is_current:
            raise RuntimeError("the event thread cannot wait for itself")
        event.started.wait()

    def step(self) -> float | None:
        """Process one event; None if there was none. The thread ends when nothing is left after `close`."""
        with self._lock:
            event = self._queue.popleft() if self._queue else None
            ends = event is None and self._closed
        if event is not None:
            self._run(event)
            return 0
        if ends:
            self._worker.request_stop()
        return None

    def close(self, last: Event, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Preempt what is queued, process `last`, and end the thread.

        An event under way may wait for a ZooKeeper that is gone; after `timeout_ms` the thread is left to itself, so
        that the broker stops all the same. It is a daemon, and ends with the ZooKeeper session.
        """
        if self._closed:
            return
        self.clear_and_put(last)
        with self._lock:
            self._closed = True
        if self.threaded:
            self._worker.wake()
            self._worker.join(timeout_ms)
        else:
            while self.step() is not None:
                pass

    def _run(self, event: Event) -> None:
        begin, waited = self._clock.monotonic_ns(), self._waited_ns()
        self._queue_time.update((begin - event.enqueued_ns) / _MS)
        self.state = event.state
        logger.debug("Processing %s", event)
        try:
            event.process()
        except Exception as error:
            self._on_error(event, error)
        finally:
            self.state = ControllerState.IDLE
            took = self._clock.monotonic_ns() - begin
            timer = event.state.timer
            if timer is not None:
                self._timers[timer].update(took / _MS)
            level = logging.INFO if event.state in _TOLD else logging.DEBUG
            if self.on_processed is not None:
                self.on_processed(event.name, (begin - event.enqueued_ns) / _MS, took / _MS)
            waited = self._waited_ns() - waited
            logger.log(
                level, "%s took %.1f ms, %.1f ms of it waiting for ZooKeeper", event.name, took / _MS, waited / _MS
            )


def _guarded_preempt(event: Event) -> None:
    try:
        event.preempt()
    except Exception:
        logger.exception("Could not preempt %s", event)
