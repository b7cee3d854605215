"""What `benchmarks.suite` found, as data and as one page of HTML that needs nothing beside it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from html import escape

from benchmarks.charts import ratio_chart

CHANGED = 0.1
"""A ratio that moved by more is named."""

_STYLE = (
    "body{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,th:first-child{text-align:left}small{color:#666}.short{color:#c0392b}"
)


@dataclass(frozen=True)
class Row:
    """One figure: a value for each target, with the least and the greatest of the rounds where these are known."""

    name: str
    unit: str
    values: dict[str, float]
    more_is_better: bool = False
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def of_kafka(self) -> float | None:
        """How many times Kafka's this is; None if one of them is missing or nothing."""
        ours, theirs = self.values.get("odradek"), self.values.get("kafka")
        return ours / theirs if ours is not None and theirs else None

    @property
    def is_short(self) -> bool:
        """Whether Kafka does better."""
        ratio = self.of_kafka
        return ratio is not None and (ratio < 1 if self.more_is_better else ratio > 1)


@dataclass(frozen=True)
class Machine:
    """Where it was measured."""

    cores: int
    system: str
    python: str
    load: float
    """One minute's load average before the first part."""

    @classmethod
    def here(cls) -> Machine:
        return cls(os.cpu_count() or 0, platform.platform(), platform.python_version(), round(os.getloadavg()[0], 1))


@dataclass(frozen=True)
class Results:
    """One run."""

    time: str
    quick: bool
    machine: Machine
    parts: dict[str, list[Row]]
    failures: dict[str, str]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def of_json(cls, text: str) -> Results:
        """Raises ValueError, KeyError or TypeError for what is no result."""
        found = json.loads(text)
        parts = {name: [Row(**row) for row in rows] for name, rows in found["parts"].items()}
        return cls(found["time"], found["quick"], Machine(**found["machine"]), parts, found["failures"])


def shortcomings(results: Results) -> list[tuple[str, Row]]:
    """With their parts, those that are worst first."""

    def severity(item: tuple[str, Row]) -> float:
        ratio = item[1].of_kafka or 1.0
        return 1 / ratio if item[1].more_is_better and ratio else ratio

    found = [(part, row) for part, rows in results.parts.items() for row in rows if row.is_short]
    return sorted(found, key=severity, reverse=True)


def changes(results: Results, before: Results) -> Iterator[tuple[str, Row, float, float]]:
    """What moved since: part, row, and both ratios to Kafka (or both values of what Kafka does not have)."""
    known = {(part, row.name, row.unit): row for part, rows in before.parts.items() for row in rows}
    for part, rows in results.parts.items():
        for row in rows:
            old = known.get((part, row.name, row.unit))
            if old is None:
                continue
            was, now = old.of_kafka, row.of_kafka
            if was is None or now is None:
                was, now = old.values.get("odradek"), row.values.get("odradek")
            if was and now and abs(now / was - 1) > CHANGED:
                yield part, row, was, now


def page(results: Results, before: Results | None) -> str:
    """The whole page."""
    machine = results.machine
    parts = [
        f"<!doctype html><meta charset=utf-8><title>Benchmarks</title><style>{_STYLE}</style><h1>Benchmarks</h1>",
        f"<p>{escape(results.time)}{', in short form: the figures say nothing' if results.quick else ''}. "
        f"{machine.cores} cores, {escape(machine.system)}, Python {escape(machine.python)}, "
        f"load average {machine.load} at the start. Ratios are taken within this run.</p>",
        "<h2>Short of Kafka</h2>",
        _short(results),
        "<h2>Since the last run</h2>",
        _changed(results, before),
    ]
    for name, text in results.failures.items():
        parts.append(f"<h2>{escape(name)}</h2><p class=short>Failed: {escape(text)}</p>")
    for name, rows in results.parts.items():
        compared = {f"{row.name}, {row.unit}": row.of_kafka for row in rows}
        chart = ratio_chart({text: ratio for text, ratio in compared.items() if ratio is not None})
        parts.append(f"<h2>{escape(name)}</h2>{chart}{_table(rows)}")
    return "\n".join(parts) + "\n"


def _short(results: Results) -> str:
    found = shortcomings(results)
    if not found:
        compared = any(row.of_kafka is not None for rows in results.parts.values() for row in rows)
        return "<p>Nothing.</p>" if compared else "<p>Kafka was not measured.</p>"
    items = (
        f"<li class=short>{escape(part)}: {escape(row.name)}, {escape(row.unit)}: {row.of_kafka:.2f} of Kafka's</li>"
        for part, row in found
    )
    return f"<ul>{''.join(items)}</ul>"


def _changed(results: Results, before: Results | None) -> str:
    if before is None:
        return "<p>There is no stored run of this form.</p>"
    items = "".join(
        f"<li>{escape(part)}: {escape(row.name)}, {escape(row.unit)}: {was:,.2f} before, {now:,.2f} now</li>"
        for part, row, was, now in changes(results, before)
    )
    since = f"<p>Of {escape(before.time)}, by more than {CHANGED:.0%}; as ratios to Kafka where it was measured."
    return f"{since}</p><ul>{items}</ul>" if items else f"{since} Nothing.</p>"


def _table(rows: Iterable[Row]) -> str:
    rows = list(rows)
    targets = list(dict.fromkeys(name for row in rows for name in row.values))
    head = "".join(f"<th>{escape(name)}" for name in ("", "unit", *targets, "of Kafka's"))
    lines = []
    for row in rows:
        cells = []
        for target in targets:
            value = row.values.get(target)
            cell = "" if value is None else f"{value:,.2f}"
            if target in row.spread:
                least, greatest = row.spread[target]
                cell += f" <small>{least:,.2f} to {greatest:,.2f}</small>"
            cells.append(f"<td>{cell}")
        ratio = "" if row.of_kafka is None else f"{row.of_kafka:.2f}"
        mark = " class=short" if row.is_short else ""
        lines.append(f"<tr><td>{escape(row.name)}<td>{escape(row.unit)}{''.join(cells)}<td{mark}>{ratio}")
    return f"<table><tr>{head}{''.join(lines)}</table>"
