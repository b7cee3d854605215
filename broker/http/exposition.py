"""The page that Prometheus scrapes, in its text format 0.0.4, made in short slices.

A page of 5,000 partitions has some 50,000 lines. What stands before the values is worked out once and kept until a
metric is added or removed; a scrape reads the values only. After each slice the maker waits, so that requests do not
find the interpreter taken for longer than a slice.

Written by hand, because prometheus-client takes half as long again for a page of this size, and in one piece
(`python -m benchmarks.metrics`). What a process and its garbage collector show does come from there.
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
_SLICE = 200  # lines, less than a millisecond
_PLANNED = 50  # metrics, about as long
_PAUSE_S = 0.001

# What stands before a line (the head of its family, or nothing), the line without its value, and the value.
_Line = tuple[str, str, Read]


class Exposition:
    """Answers `/metrics`; without `partitions`, what has a label `partition` is left out. `more` gives further lines,
    of families that the registry does not have."""

    def __init__(
        self, metrics: MetricsRegistry, *, partitions: bool = True, more: Callable[[], Iterator[str]] | None = None
    ) -> None:
        self._metrics = metrics
        self._partitions = partitions
        self._more = more
        self._plan: list[_Line] = []
        self._plan_of = -1

    async def handle(self, _request: HttpRequest) -> HttpResponse:
        return HttpResponse(HTTPStatus.OK, CONTENT_TYPE, self._slices())

    async def _slices(self) -> AsyncIterator[bytes]:
        self._metrics.prepare()
        if self._plan_of != self._metrics.changes:
            await self._make_plan()
        plan = self._plan
        for start in range(0, len(plan), _SLICE):
            yield "".join(_lines(plan[start : start + _SLICE])).encode()
            await asyncio.sleep(_PAUSE_S)
        if self._more is not None:
            lines = self._more()
            while part := "".join(islice(lines, _SLICE)):
                yield part.encode()
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
        plan: list[_Line] = []
        for family in sorted(families):
            first, *rest = families[family]
            head = f"# HELP {family} {first.mbean}\n# TYPE {family} {first.kind}\n"
            plan.append((head, first.line, first.read))
            plan.extend(("", each.line, each.read) for each in rest)
        self._plan, self._plan_of = plan, changes

    def _is_shown(self, key: MetricName) -> bool:
        return self._partitions or all(tag != "partition" for tag, _ in key.tags)


def _lines(plan: list[_Line]) -> list[str]:
    lines = []
    for head, line, read in plan:
        try:
            lines.append(f"{head}{line}{float(read())!r}\n")
        except Exception:
            lines.append(head)
            logger.debug("the metric %s cannot be read", line, exc_info=True)
    return lines


def _process_page() -> bytes:
    """CPU, memory and descriptors of the process, and its garbage collector. Imported when first asked for: a broker
    that nobody scrapes does without."""
    from prometheus_client import REGISTRY, generate_latest

    return bytes(generate_latest(REGISTRY))
