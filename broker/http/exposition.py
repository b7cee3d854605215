"""The page that Prometheus scrapes, in its text format 0.0.4, made in short slices.

A page of 5,000 partitions has some 50,000 lines. What stands before the values is worked out once and kept until a
metric is added or removed, and so is the text of each slice until one of its values changes; a scrape reads the values,
partition by partition and not line by line.
After each slice the maker waits, so that requests do not find the interpreter taken for longer than a slice.

Written by hand, because prometheus-client takes longer for a page of this size, and in one piece (`python -m
benchmarks.metrics`). What a process and its garbage collector show does come from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from http import HTTPStatus
from itertools import islice
from operator import itemgetter
from typing import Any

from broker.http.messages import HttpRequest, HttpResponse
from broker.http.series import Read, Series, series_of
from broker.metrics import Metric, MetricName, MetricsRegistry, Part

logger = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SLICE = 500  # lines, about a millisecond if all have changed
_PLANNED = 50  # metrics, about as long
_LOOKED_UP = 1000  # of those that were there already
_UNCHANGED = 20  # slices whose texts are at hand
_PAUSE_S = 0.001
_UNREADABLE = float("nan")


class _Reads:
    """Reads some series that were registered one after the other: what stands together in memory, as all of a
    partition's do, is read together, and the page is put in order afterwards."""

    __slots__ = ("_calls", "_lines", "_reads")

    def __init__(self, series: list[Series]) -> None:
        self._lines = [each.line for each in series]
        self._reads = [each.read for each in series]
        self._calls: list[tuple[bool, list[Callable[[], Any]]]] = []
        """Runs of functions that give one value, or (true) some that follow each other here."""
        place = 0
        while place < len(self._reads):
            read = self._reads[place]
            following = _following(self._reads, place)
            is_many, call = (True, read.together) if following and isinstance(read, Part) else (False, read)
            if not self._calls or self._calls[-1][0] != is_many:
                self._calls.append((is_many, []))
            self._calls[-1][1].append(call)
            place += following or 1

    def values(self) -> list[float]:
        """Calls from one thread only."""
        values: list[float] = []
        try:
            for is_many, calls in self._calls:
                if is_many:
                    for call in calls:
                        values += call()
                else:
                    values += [call() for call in calls]
        except Exception:
            return [_read_or_nan(each, line) for each, line in zip(self._reads, self._lines, strict=True)]
        return values


def _following(reads: list[Read], place: int) -> int:
    """How many series from here on are what one function gives, all of it and in its order; 0: they are not."""
    first = reads[place]
    if not isinstance(first, Part) or first.place:
        return 0
    some = reads[place : place + first.count]
    whole = [each.place for each in some if isinstance(each, Part) and each.together is first.together]
    return first.count if whole == list(range(first.count)) else 0


def _read_or_nan(read: Read, line: str) -> float:
    try:
        return float(read())
    except Exception:
        logger.debug("the metric %s cannot be read", line, exc_info=True)
        return _UNREADABLE


class _Slice:
    """Some lines of the page. A series that cannot be read has none."""

    __slots__ = ("_heads", "_lines", "_pick", "_values", "text")

    def __init__(self, heads: list[str], lines: list[str], places: list[int]) -> None:
        """`heads`: what stands before each line, the head of its family or nothing; `places`: of their values."""
        self._heads = heads
        self._lines = lines
        self._pick = itemgetter(*places, places[0])  # two at least, so that it gives a tuple
        self._values: tuple[float, ...] = ()
        self.text = b""

    def update(self, values: list[float]) -> bool:
        """Whether the text is another one now."""
        picked = self._pick(values)
        if picked == self._values:
            return False
        self.text = "".join(
            f"{head}{line}{float(value)!r}\n" if value is not _UNREADABLE else head
            for head, line, value in zip(self._heads, self._lines, picked, strict=False)
        ).encode()
        self._values = picked
        return True


_NOTHING: tuple[Metric | None, list[Series]] = (None, [])


class Exposition:
    """Answers `/metrics`; without `partitions`, what has a label `partition` is left out. `more` gives further lines,
    of families that the registry does not have."""

    def __init__(
        self, metrics: MetricsRegistry, *, partitions: bool = True, more: Callable[[], Iterator[str]] | None = None
    ) -> None:
        self._metrics = metrics
        self._partitions = partitions
        self._more = more
        self._reads: list[_Reads] = []
        self._plan: list[_Slice] = []
        self._plan_of = -1
        self._known: dict[MetricName, tuple[Metric | None, list[Series]]] = {}
        """The series of the metrics that the plan has: the next plan has most of them, too."""

    async def handle(self, _request: HttpRequest) -> HttpResponse:
        return HttpResponse(HTTPStatus.OK, CONTENT_TYPE, self._slices())

    async def _slices(self) -> AsyncIterator[bytes]:
        self._metrics.prepare()
        if self._plan_of != self._metrics.changes:
            await self._make_plan()
        # Another scrape may make another plan meanwhile.
        reads, plan = self._reads, self._plan
        values: list[float] = []
        for some in reads:
            values += some.values()
            await asyncio.sleep(_PAUSE_S)
        unchanged = 0
        for part in plan:
            unchanged = 0 if part.update(values) else unchanged + 1
            yield part.text
            if unchanged % _UNCHANGED == 0:
                await asyncio.sleep(_PAUSE_S)
        if self._more is not None:
            lines = self._more()
            while text := "".join(islice(lines, _SLICE)):
                yield text.encode()
                await asyncio.sleep(_PAUSE_S)
        from broker.http.process import process_page

        yield process_page()

    async def _make_plan(self) -> None:
        changes = self._metrics.changes
        series: list[Series] = []
        known: dict[MetricName, tuple[Metric | None, list[Series]]] = {}
        for number, (key, metric) in enumerate(self._metrics.items()):
            if not self._is_shown(key):
                continue
            held = self._known.get(key, _NOTHING)
            at_hand = held[0] is metric or (isinstance(metric, Part) and metric.is_like(held[0]))
            known[key] = held = held if at_hand else (metric, list(series_of(key, metric)))
            series.extend(held[1])
            if number % (_LOOKED_UP if at_hand else _PLANNED) == 0:
                await asyncio.sleep(_PAUSE_S)
        self._known = known
        places: dict[str, list[int]] = {}
        for place, each in enumerate(series):
            places.setdefault(each.family, []).append(place)
        heads, order = [], []
        for family in sorted(places):
            first = series[places[family][0]]
            heads.append(f"# HELP {family} {first.mbean}\n# TYPE {family} {first.kind}\n")
            heads.extend([""] * (len(places[family]) - 1))
            order.extend(places[family])
        starts = range(0, len(series), _SLICE)
        self._reads = [_Reads(series[start : start + _SLICE]) for start in starts]
        self._plan = []
        for start in starts:
            some = order[start : start + _SLICE]
            self._plan.append(_Slice(heads[start : start + _SLICE], [series[place].line for place in some], some))
        self._plan_of = changes

    def _is_shown(self, key: MetricName) -> bool:
        return self._partitions or all(tag != "partition" for tag, _ in key.tags)
