"""How far a query is behind its topics.

Spark lets a Python source report its latest offsets but no metrics and no name of its own; a listener on the driver
makes from each progress report what Spark's connector puts in ``metrics`` and ``description``: min, max and average
offsets behind latest, and the topics.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_jobs.planning import Offsets, from_json

logger = logging.getLogger(__name__)

MAX_QUERIES = 1000
# What Spark calls every Python source, with a number behind it.
_PYTHON_STREAM = "PythonMicroBatchStream"


@dataclass(frozen=True, slots=True)
class Lag:
    """Offsets behind latest over the partitions of one source; gaps count."""

    min_offsets_behind: int
    max_offsets_behind: int
    avg_offsets_behind: float

    @classmethod
    def between(cls, position: Offsets, latest: Offsets) -> Lag | None:
        """From where a query is to what is there; None when there is no partition."""
        behind = [max(0, end - position.get(partition, 0)) for partition, end in latest.items()]
        return cls(min(behind), max(behind), sum(behind) / len(behind)) if behind else None


class LagListener(StreamingQueryListener):
    """Keeps the last lag of each query's ``odradek`` sources and tells ``report`` about it.

    ``spark.streams.addListener(LagListener())``. At most 1000 ended queries are remembered, the oldest go first.
    """

    def __init__(self, report: Callable[[str, Lag], None] | None = None) -> None:
        self.by_query: dict[str, Lag] = {}
        self._report = _log_lag if report is None else report

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryProgress(self, event: Any) -> None:
        """Compute the lag of a batch that ended."""
        for source in event.progress.sources:
            lag = lag_of(source.endOffset, source.latestOffset)
            if lag is None:
                continue
            query = str(event.progress.name or event.progress.id)
            self.by_query.pop(query, None)
            self.by_query[query] = lag
            while len(self.by_query) > MAX_QUERIES:
                del self.by_query[next(iter(self.by_query))]
            self._report(query, lag)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing to do: the last lag stays readable."""


def lag_of(end: object, latest: object) -> Lag | None:
    """Lag from the offsets of a progress report (JSON text or mappings); None when they are not a topic's."""
    position, last = _offsets(end), _offsets(latest)
    return None if position is None or last is None else Lag.between(position, last)


def described(progress: Any) -> dict[str, Any]:
    """A progress report (of ``query.lastProgress`` or a listener) as a dictionary, in which our sources have the
    ``metrics`` of Spark's connector and a ``description`` that names their topics."""
    found: dict[str, Any] = json.loads(progress.json)
    for source in found["sources"]:
        lag = lag_of(source.get("endOffset"), source.get("latestOffset"))
        if lag is None or _PYTHON_STREAM not in source["description"]:
            continue
        topics = sorted({topic for topic, _ in _offsets(source["endOffset"]) or ()})
        source["description"] = f"odradek[{', '.join(topics)}]"
        source["metrics"] = {
            "avgOffsetsBehindLatest": str(lag.avg_offsets_behind),
            "maxOffsetsBehindLatest": str(lag.max_offsets_behind),
            "minOffsetsBehindLatest": str(lag.min_offsets_behind),
        }
    return found


def _offsets(value: object) -> Offsets | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, Mapping) or not all(isinstance(each, Mapping) for each in value.values()):
        return None
    try:
        return from_json(value)
    except (TypeError, ValueError):
        return None


def _log_lag(query: str, lag: Lag) -> None:
    logger.info(
        "query %s is behind by %d to %d offsets, %.1f on average",
        query,
        lag.min_offsets_behind,
        lag.max_offsets_behind,
        lag.avg_offsets_behind,
    )
