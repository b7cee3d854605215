"""Producer ids: taken one by one from a block that the controller (or, with old protocol versions, ZooKeeper) gave.

The next block is asked for when nine tenths of the current one are used, one request at a time, so that a producer
rarely has to wait. When there is no id at hand the answer is COORDINATOR_LOAD_IN_PROGRESS and the client tries again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from network.protocol.errors import ApiError, ErrorCode
from timer.clock import Clock
from timer.news import News
from timer.scheduler import Scheduler

logger = logging.getLogger(__name__)

RETRY_BACKOFF_MS = 50
PREFETCH_FRACTION = 0.9


class ProducerIdBlock(NamedTuple):
    first: int
    size: int

    @property
    def last(self) -> int:
        return self.first + self.size - 1


class BlockSource(Protocol):
    """Where blocks come from. Must not block; calls back, from any thread, with a block or an error."""

    def request_block(self, callback: Callable[[ProducerIdBlock | ErrorCode], None]) -> None: ...


class ProducerIdManager:
    """Thread-safe."""

    def __init__(self, source: BlockSource, scheduler: Scheduler, clock: Clock) -> None:
        self._source = source
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._block: ProducerIdBlock | None = None
        self._next_block: ProducerIdBlock | None = None
        self._next = 0
        self._requested = False
        self._failures = News(clock)

    def next_id(self) -> int:
        """A producer id that no one else gets. Raises COORDINATOR_LOAD_IN_PROGRESS while there is none."""
        with self._lock:
            if self._block is None or self._next > self._block.last:
                self._block, self._next_block = self._next_block, None
                if self._block is not None:
                    self._next = self._block.first
            block = self._block
            producer_id = -1
            if block is not None:
                producer_id = self._next
                self._next += 1
            used_up = block is None or self._next >= block.first + int(block.size * PREFETCH_FRACTION)
            ask = used_up and self._next_block is None and not self._requested
            if ask:
                self._requested = True
        if ask:
            self._source.request_block(self._on_block)
        if producer_id < 0:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "Producer ID block is not available yet")
        return producer_id

    def _on_block(self, answer: ProducerIdBlock | ErrorCode) -> None:
        if isinstance(answer, ErrorCode):
            if self._failures.is_new("block", answer):
                logger.warning("no producer id block: %s; asking again", answer.name)
            self._scheduler.schedule_once(
                "producer-id-block", lambda: self._source.request_block(self._on_block), delay_ms=RETRY_BACKOFF_MS
            )
            return
        self._failures.is_over("block")
        with self._lock:
            self._requested = False
            self._next_block = answer
