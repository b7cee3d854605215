"""Findings of the audit."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark.sql.datasource")

from log.tools.verify import Finding, Severity
from spark_jobs.jobs.segment_audit import index_findings_once

LOG, INDEX, TIMES = "/d/t-0/00.log", "/d/t-0/00.index", "/d/t-0/00.timeindex"


def test_what_follows_in_an_index_is_counted() -> None:
    wrong = [Finding(Severity.ERROR, INDEX, f"entry {n}: no batch begins at position {n}") for n in (3, 5, 8)]
    logs = [Finding(Severity.ERROR, LOG, f"position {n}: checksum") for n in (1, 2)]
    torn = Finding(Severity.WARNING, INDEX, "entry 9: no batch begins at position 9")
    times = Finding(Severity.ERROR, TIMES, "timestamp 1 follows 2")
    assert list(index_findings_once([logs[0], wrong[0], wrong[1], times, torn, wrong[2], logs[1]])) == [
        *logs,
        Finding(Severity.ERROR, INDEX, "entry 3: no batch begins at position 3; and 2 more of this index"),
        times,
        torn,
    ]
