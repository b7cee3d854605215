"""What `benchmarks.suite` found, as one page of HTML that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from benchmarks import linkedin
from benchmarks.charts import bar_chart, figure, ratio_chart
from benchmarks.suite_results import CHANGED, Results, Row, changes, shortcomings

_STYLE = (
    "body{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,th:first-child{text-align:left}small{color:#666}.short{color:#c0392b}"
)


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
        took = f" <small>{results.seconds[name]} s</small>" if name in results.seconds else ""
        parts.append(f"<h2>{escape(name)}{took}</h2>{chart}{_linkedin(rows)}{_rates(rows)}{_table(rows)}")
    return "\n".join(parts) + "\n"


def _short(results: Results) -> str:
    found = shortcomings(results)
    if not found:
        compared = any(row.of_kafka is not None for rows in results.parts.values() for row in rows)
        return "<p>Nothing.</p>" if compared else "<p>Kafka was not measured.</p>"
    items = (f"<li class=short>{escape(part)}: {escape(row.beside_kafka, quote=False)}</li>" for part, row in found)
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


def _linkedin(rows: Iterable[Row]) -> str:
    """Its table of 2014, where these rows are those of it."""
    lines = linkedin.in_its_shape(rows, {})
    if not lines:
        return ""
    head, *rest = lines
    cells = ["<th>".join(["", *map(escape, head)]), *("<td>".join(["", *map(escape, line)]) for line in rest)]
    return f"<p>Beside what LinkedIn measured with a machine for each.<table><tr>{'<tr>'.join(cells)}</table>"


def _rates(rows: Iterable[Row]) -> str:
    """A chart a unit of which more is better."""
    by_unit: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        if row.more_is_better:
            by_unit.setdefault(row.unit, {})[row.name] = row.values
    return "".join(bar_chart(groups, unit) for unit, groups in by_unit.items())


def _table(rows: Iterable[Row]) -> str:
    rows = list(rows)
    targets = list(dict.fromkeys(name for row in rows for name in row.values))
    head = "".join(f"<th>{escape(name)}" for name in ("", "unit", *targets, "of Kafka's"))
    lines = []
    for row in rows:
        cells = []
        for target in targets:
            value = row.values.get(target)
            cell = "" if value is None else figure(value)
            if target in row.spread:
                least, greatest = row.spread[target]
                cell += f" <small>{figure(least)} to {figure(greatest)}</small>"
            cells.append(f"<td>{cell}")
        ratio = "" if row.of_kafka is None else f"{row.of_kafka:.2f}"
        mark = " class=short" if row.is_short else ""
        lines.append(f"<tr><td>{escape(row.name)}<td>{escape(row.unit)}{''.join(cells)}<td{mark}>{ratio}")
    return f"<table><tr>{head}{''.join(lines)}</table>"
