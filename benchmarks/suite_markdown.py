"""What `benchmarks.suite` found, as Markdown for docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks import linkedin
from benchmarks.charts import figure
from benchmarks.suite_results import Results, Row, shortcomings

TITLES = {"sink": "sink", "odradek": "Odradek", "kafka": "Kafka"}


def markdown(results: Results) -> str:
    """The machine, what falls short of Kafka, and a table a part; without a heading of its own."""
    machine = results.machine
    minutes = sum(results.seconds.values()) / 60
    form = "`make bench FORM=--quick`, whose figures say nothing" if results.quick else "`make bench`"
    lines = [
        f"{form}, {results.time[:10]}: {machine.cores} cores, Python {machine.python}, load average {machine.load} "
        f"at the start, {minutes:.0f} minutes. Medians; in brackets the least and the greatest of the rounds.",
        "",
    ]
    lines += [f"Failed: {name}: {text.splitlines()[-1]}\n" for name, text in results.failures.items()]
    short = shortcomings(results)
    compared = sum(row.of_kafka is not None for rows in results.parts.values() for row in rows)
    lines += [f"Short of Kafka in {len(short)} of {compared} figures{':' if short else '.'}", ""]
    lines += [f"- {part}: {row.beside_kafka}" for part, row in short]
    for name, rows in results.parts.items():
        # The document has sections named like some parts, to which it links.
        lines += ["", f"### Part: {name}", "", *table(rows)]
        if shape := linkedin.in_its_shape(rows, TITLES):
            lines += ["", "LinkedIn's table of 2014, where each broker and client had a machine of its own:", ""]
            lines += [f"| {' | '.join(cells)} |" for cells in (shape[0], ["---"] * len(shape[0]), *shape[1:])]
    return "\n".join(lines) + "\n"


def table(rows: Iterable[Row]) -> Iterator[str]:
    """Its lines: a column a target, and the ratio where there are both."""
    rows = list(rows)
    targets = list(dict.fromkeys(name for row in rows for name in row.values))
    has_ratio = any(row.of_kafka is not None for row in rows)
    head = ["", "unit", *(TITLES.get(name, name) for name in targets), *(["of Kafka's"] if has_ratio else [])]
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        cells = [row.name, row.unit, *(cell(row, target) for target in targets)]
        if has_ratio:
            cells.append("" if row.of_kafka is None else f"{row.of_kafka:.2f}")
        yield f"| {' | '.join(cells)} |"


def cell(row: Row, target: str) -> str:
    value = row.values.get(target)
    if value is None:
        return ""
    least, greatest = row.spread.get(target, (value, value))
    around = "" if least == greatest else f" ({figure(least)} to {figure(greatest)})"
    return f"{figure(value)}{around}"
