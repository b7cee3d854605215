"""The page that Prometheus scrapes, in its text format 0.0.4, made in short slices.

A page of 5,000 partitions has some 50,000 lines. What stands before the values is worked out once and kept until a
metric is added or removed, and so is the text of each slice until one of its values changes; a scrape reads the values.
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

from broker.http.messages import HttpRequest, HttpResponse
from broker.http.series import Read, Series, series_of
from broker.metrics import MetricName, MetricsRegistry

logger = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SLICE = 500  # lines, about a millisecond if all have changed
_PLANNED = 50  # metrics, about as long
_PAUSE_S = 0.001


class _Slice:
    """Some lines of the page. A series that cannot be read has none."""

    __slots__ = ("_heads", "_lines", "_reads", "_text", "_values")

    def __init__(self, heads: list[str], series: list[Series]) -> None:
        """`heads`: what stands before each line, the head of its family or nothing."""
        self._heads = heads
        self._lines = [each.line for each in series]
        self._reads = [each.read for each in series]
        self._values: list[float] = []
        self._text = b""

    def text(self) -> bytes:
        """Reads every value; calls from one thread only."""
        try:
            values = [read() for read in self._reads]
        except Exception:
            values = [_read_or_nan(each, line) for each, line in zip(self._reads, self._lines, strict=True)]
        if values != self._values:
            self._text = "".join(
                f"{head}{line}{float(value)!r}\n" if value is not _UNREADABLE else head
                for head, line, value in zip(self._heads, self._lines, values, strict=True)
            ).encode()
            self._values = values
        return self._text


_UNREADABLE = float("nan")


def _read_or_nan(read: Read, line: str) -> float:
    try:
        return float(read())
    except Exception:
        logger.debug("the metric %s cannot be read", line, exc_info=True)
        return _UNREADABLE


class Exposition:
    """Answers `/metrics`; without `partitions`, what has a label `partition` is left out. `more` gives further lines,
    of families that the registry does not have."""

    def __init__(
        self, metrics: MetricsRegistry, *, partitions: bool = True, more: Callable[[], Iterator[str]] | None = None
    ) -> None:
        self._metrics = metrics
        self._partitions = partitions
        self._more = more
        self._plan: list[_Slice] = []
        self._plan_of = -1

    async def handle(self, _request: HttpRequest) -> HttpResponse:
        return HttpResponse(HTTPStatus.OK, CONTENT_TYPE, self._slices())

    async def _slices(self) -> AsyncIterator[bytes]:
        self._metrics.prepare()
        if self._plan_of != self._metrics.changes:
            await self._make_plan()
        for part in self._plan:
            yield part.text()
            await asyncio.sleep(_PAUSE_S)
        if self._more is not None:
            lines = self._more()
            while text := "".join(islice(lines, _SLICE)):
                yield text.encode()
                await asyncio.sleep(_PAUSE_S)
        yield _process_page()

    async def _make_plan(self) -> None:
        changes = self._metrics.changes
        families: dict[str, list[Series]] = {}
        for number, (key, metric) in enumerate(self._metrics.items()):
            if self._is_shown(key):
                for each in series_of(key, metric):
                    families.setdefault(each.family, []).append(each)
            if number % _PLANNED == 0:
                await asyncio.sleep(_PAUSE_S)
        heads, series = [], []
        for family in sorted(families):
            first = families[family][0]
            heads.append(f"# HELP {family} {first.mbean}\n# TYPE {family} {first.kind}\n")
            heads.extend([""] * (len(families[family]) - 1))
            series.extend(families[family])
        starts = range(0, len(series), _SLICE)
        self._plan = [_Slice(heads[start : start + _SLICE], series[start : start + _SLICE]) for start in starts]
        self._plan_of = changes

    def _is_shown(self, key: MetricName) -> bool:
        return self._partitions or all(tag != "partition" for tag, _ in key.tags)


def _process_page() -> bytes:
    """CPU, memory and descriptors of the process, and its garbage collector. Imported when first asked for: a broker
    that nobody scrapes does without."""
    from prometheus_client import REGISTRY, generate_latest

    return bytes(generate_latest(REGISTRY))
