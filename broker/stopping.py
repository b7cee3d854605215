"""What a broker has started, and how it stops: in the opposite order, each part whatever became of the others."""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Started:
    """Parts in the order in which they started. Not for several threads at once."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, Callable[[], object]]] = []

    def add(self, name: str, stop: Callable[[], object], after: str | None = None) -> None:
        """The part `name` runs. With `after`, it stops as if it had started right after that one.

        Raises ValueError when no part has that name.
        """
        where = len(self._parts) if after is None else [each for each, _ in self._parts].index(after) + 1
        self._parts.insert(where, (name, stop))

    def stop_all(self) -> None:
        """Stop what runs, the last first."""
        while self._parts:
            name, stop = self._parts.pop()
            stop_quietly(name, stop)


def stop_quietly(name: str, stop: Callable[[], object]) -> None:
    """Run `stop`; a failure is logged, so that the next part is stopped too."""
    try:
        stop()
    except Exception:
        logger.exception("stopping the %s failed", name)
