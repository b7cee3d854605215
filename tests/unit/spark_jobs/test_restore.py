"""What a restore says where what was written is not what was archived."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark.sql.datasource")

from spark_jobs.jobs.restore import ANY_PARTITION, Place, differences

Sums = dict[Place, tuple[int, int]]


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        ({("a", 0): (2, 7)}, {("a", 0): (2, 7)}, []),
        ({("a", 0): (2, 7)}, {}, [{"topic": "a", "partition": 0, "differs": "number", "archived": 2, "written": 0}]),
        ({}, {("a", 1): (1, 7)}, [{"topic": "a", "partition": 1, "differs": "number", "archived": 0, "written": 1}]),
        (
            {("a", ANY_PARTITION): (2, 7)},
            {("a", ANY_PARTITION): (2, 8)},
            [{"topic": "a", "differs": "checksum", "archived": 2, "written": 2}],
        ),
    ],
)
def test_differences(wanted: Sums, found: Sums, expected: list[dict[str, Any]]) -> None:
    assert differences(wanted, found) == expected
