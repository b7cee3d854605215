"""LinkedIn's table of April 2014, and figures of ours in its shape.

"Benchmarking Apache Kafka: 2 million writes per second (on three cheap machines)": records of 100 bytes, each broker
and each client on a machine of its own. Its MB are 2**20 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.suite_results import Row

NAME = "LinkedIn 2014"
TABLE = {
    "single producer, no replication": 821_557,
    "single producer, 3x async": 786_980,
    "single producer, 3x sync": 421_823,
    "three producers, 3x async": 2_024_032,
    "single consumer": 940_521,
    "three consumers": 2_615_968,
}
"""Records a second."""

MB = 2**20
_RECORD_BYTES = 100


def beside(row: Row) -> None:
    """Puts what was measured then into a row of ours, if the table has it."""
    if row.unit == "records/s" and row.name in TABLE:
        row.values[NAME] = TABLE[row.name]


def in_its_shape(rows: Iterable[Row], titles: dict[str, str]) -> list[list[str]]:
    """Lines of cells, the head first: `records/s (MB/s)` of each target; nothing if no row is one of the table."""
    found = {row.name: row.values for row in rows if row.name in TABLE and row.unit == "records/s"}
    if not found:
        return []
    targets = list(dict.fromkeys(target for values in found.values() for target in values))
    lines = [["records/s (MB/s)", *(titles.get(target, target) for target in targets)]]
    for name in TABLE:
        rates = [found.get(name, {}).get(target) for target in targets]
        cells = ["" if rate is None else f"{rate:,.0f} ({rate * _RECORD_BYTES / MB:.1f})" for rate in rates]
        lines.append([name, *cells])
    return lines
