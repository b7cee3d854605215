"""What Spark's Python workers need beside the work itself: memory that stays, and cheap garbage collections."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from network.allocator import keep_freed_memory

_state = {"memory": False, "garbage": False}


@contextlib.contextmanager
def task() -> Iterator[None]:
    """Around the work of a task. What it sets up lasts as long as the worker process.

    Freed memory is kept for the next buffer, as fresh pages cost more than what is done with them. After the first
    task, what the worker has imported is left out of further garbage collections: Spark collects after every task
    before the worker takes the next one, which with all of that loaded takes 64 to 79 ms each time.
    """
    if not _state["memory"]:
        _state["memory"] = True
        keep_freed_memory()
    try:
        yield
    finally:
        if not _state["garbage"]:
            _state["garbage"] = True
            gc.freeze()
