"""All data directories of a cluster: checksums, order, epochs, indexes, and replicas against each other.

One Spark task a partition checks every replica's files and then compares the replicas up to the high watermark.
Nothing is changed. Exit code 1 when there is an error.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from log.tools.verify import Finding, Severity, Verifier
from spark_jobs.jobs.html import heading, page, paragraph, table
from spark_jobs.jobs.replicas import compare_replicas
from spark_jobs.jobs.session import Launch, say, spark_options
from spark_jobs.jobs.sizing import local_bytes, open_fitted
from spark_jobs.segment_files import partition_directories

MAX_FINDINGS_PER_PARTITION = 200
_POSITION = re.compile(r"^position (\d+)\b")


def audit_partition(name: str, directories: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Findings about the replicas of one partition, and a last row with its totals."""
    verifier = Verifier()
    found = 0
    for directory in directories:
        for finding in index_findings_once(verifier.verify(directory)):
            found += 1
            if found <= MAX_FINDINGS_PER_PARTITION:
                position, offset = _where(finding.path, finding.message)
                yield _row(name, str(finding.severity), finding.path, position, offset, finding.message)
    for each in compare_replicas([Path(directory) for directory in directories]):
        found += 1
        if found <= MAX_FINDINGS_PER_PARTITION:
            yield _row(name, each.severity, each.path, each.position, each.offset, each.message)
    if found > MAX_FINDINGS_PER_PARTITION:
        yield _row(name, "note", "", None, None, f"{found - MAX_FINDINGS_PER_PARTITION} more findings left out")
    totals = verifier.totals
    yield {
        **_row(name, "totals", "", None, None, ""),
        "replicas": len(directories),
        "batches": totals.batches,
        "records": totals.records,
        "bytes": totals.bytes,
    }


def index_findings_once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Of each index the first finding of a severity, with the number of those that follow from it: one wrong batch or
    entry puts all entries behind it in the wrong."""
    first: dict[tuple[str, Severity], Finding] = {}
    more: Counter[tuple[str, Severity]] = Counter()
    for finding in findings:
        place = (finding.path, finding.severity)
        if not finding.path.endswith((".index", ".timeindex")):
            yield finding
        elif place in first:
            more[place] += 1
        else:
            first[place] = finding
    for place, finding in first.items():
        text = f"{finding.message}; and {more[place]} more of this index" if more[place] else finding.message
        yield Finding(finding.severity, finding.path, text)


def _row(
    partition: str, severity: str, path: str, position: int | None, offset: int | None, message: str
) -> dict[str, Any]:
    return {
        "partition": partition,
        "severity": severity,
        "path": path,
        "position": position,
        "offset": offset,
        "message": message,
    }


def _where(path: str, message: str) -> tuple[int | None, int | None]:
    """Position and base offset of the batch that a finding is about, when it is about one."""
    match = _POSITION.match(message)
    if match is None or not path.endswith(".log"):
        return None, None
    position = int(match[1])
    with open(path, "rb") as file:
        file.seek(position)
        head = file.read(8)
    return position, int.from_bytes(head, "big", signed=True) if len(head) == 8 else None


def run(spark: Any, paths: Sequence[str]) -> list[dict[str, Any]]:
    """Audit all partitions at or below the paths, which driver and executors can read. Returns all rows."""
    found = partition_directories(paths)
    work = [(str(tp), [str(directory) for directory in places]) for tp, places in sorted(found.items())]
    say(f"{len(work)} partitions, {sum(len(places) for _, places in work)} replicas")
    rdd = spark.sparkContext.parallelize(work, min(len(work), 1000))
    rows: list[dict[str, Any]] = rdd.flatMap(lambda each: list(audit_partition(*each))).collect()
    return rows


def report(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as an HTML page."""
    totals = [row for row in rows if row["severity"] == "totals"]
    findings = [row for row in rows if row["severity"] != "totals"]
    order = {"error": 0, "warning": 1, "note": 2}
    findings.sort(key=lambda row: (order.get(row["severity"], 3), row["partition"], row["path"]))
    count = Counter(row["severity"] for row in findings)
    said = ", ".join(f"{count[name]} {name}s" for name in order)
    shown = [
        {k: v for k, v in row.items() if k not in ("severity", "path", "position", "offset", "message")}
        for row in totals
    ]
    return page(
        "Segment audit", [paragraph(said), heading("Findings"), table(findings), heading("Partitions"), table(shown)]
    )


@click.command("segment-audit")
@click.argument("paths", nargs=-1, required=True, metavar="DIRECTORY...")
@click.option("--html", "html_path", type=click.Path(dir_okay=False), help="Also write a page with everything.")
@spark_options
def main(paths: tuple[str, ...], html_path: str | None, launch: Launch) -> None:
    """Check the data directories of all brokers together, so that replicas are compared."""
    spark = open_fitted(launch, "segment-audit", local_bytes(*paths))
    rows = run(spark, paths)
    if html_path is not None:
        Path(html_path).write_text(report(rows))
    findings = [row for row in rows if row["severity"] != "totals"]
    totals = [row for row in rows if row["severity"] == "totals"]
    result = {
        "partitions": len(totals),
        "replicas": sum(row["replicas"] for row in totals),
        "batches": sum(row["batches"] for row in totals),
        "records": sum(row["records"] for row in totals),
        "bytes": sum(row["bytes"] for row in totals),
        "findings": findings,
    }
    launch.show(result)
    if any(row["severity"] == "error" for row in findings):
        sys.exit(1)


if __name__ == "__main__":
    main()
