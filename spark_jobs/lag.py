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

from spark_jobs.options import Partition
from spark_jobs.planning import GROUP_REPORT, OffsetJson, Offsets, from_json, to_json

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


@dataclass(frozen=True, slots=True)
class SourceLag:
    """One source of a query after a batch: where it is, what is there, and how commits to its group went so far."""

    query_id: str
    query_name: str
    source: int
    position: Offsets
    latest: Offsets
    commits: int = 0
    failures: int = 0

    @property
    def by_partition(self) -> dict[Partition, int]:
        """Offsets behind latest; gaps count."""
        return {each: max(0, end - self.position.get(each, 0)) for each, end in sorted(self.latest.items())}


class LagListener(StreamingQueryListener):
    """Keeps the last lag of each query's ``odradek`` sources and tells ``report`` about it.

    ``spark.streams.addListener(LagListener())``. ``by_query`` has one Lag over all sources of a query, by the query's
    id, and remembers at most 1000, the oldest go first. ``by_source`` has each source by (query id, number of the
    source in the query) while the query runs.
    """

    def __init__(self, report: Callable[[str, Lag], None] | None = None) -> None:
        self.by_query: dict[str, Lag] = {}
        self.by_source: dict[tuple[str, int], SourceLag] = {}
        self._report = _log_lag if report is None else report

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryProgress(self, event: Any) -> None:
        """Compute the lag of a batch that ended."""
        query = str(event.progress.id)
        behind: list[int] = []
        for number, source in enumerate(event.progress.sources):
            position, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
            if position is None or not latest:
                continue
            commits, failures = _group_report(source.latestOffset)
            name = str(event.progress.name or "")
            lag = SourceLag(query, name, number, position, latest, commits, failures)
            self.by_source[query, number] = lag
            behind += lag.by_partition.values()
        if not behind:
            return
        self.by_query.pop(query, None)
        self.by_query[query] = whole = Lag(min(behind), max(behind), sum(behind) / len(behind))
        while len(self.by_query) > MAX_QUERIES:
            oldest = next(iter(self.by_query))
            del self.by_query[oldest]
            self._forget(oldest)
        self._report(query, whole)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:
        """The sources go; the query's last lag stays readable."""
        self._forget(str(event.id))

    def _forget(self, query: str) -> None:
        for key in [key for key in self.by_source if key[0] == query]:
            del self.by_source[key]


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
            "offsetsBehindLatest": json.dumps(_behind(source)),
        }
        if GROUP_REPORT in source["latestOffset"]:
            commits, failures = _group_report(source["latestOffset"])
            source["metrics"] |= {"groupCommits": str(commits), "groupCommitFailures": str(failures)}
    return found


def _behind(source: Mapping[str, Any]) -> OffsetJson:
    position, latest = _offsets(source["endOffset"]) or {}, _offsets(source["latestOffset"]) or {}
    return to_json(SourceLag("", "", 0, position, latest).by_partition)


def _group_report(latest: object) -> tuple[int, int]:
    """Commits to the query's group and those that failed; 0 without a group."""
    found = json.loads(latest) if isinstance(latest, str) else latest
    report = found.get(GROUP_REPORT, {}) if isinstance(found, Mapping) else {}
    return int(report.get("commits", 0)), int(report.get("failures", 0))


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
