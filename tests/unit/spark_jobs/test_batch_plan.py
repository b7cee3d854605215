"""What a batch query reads."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark.sql.datasource")

from spark_jobs.batch import plan_batch
from spark_jobs.cluster import DataLossError
from spark_jobs.option_table import OptionError
from spark_jobs.planning import Range
from tests.unit.spark_jobs.made_up import MadeUpCluster, read_options

CLUSTER = MadeUpCluster({("t", 0): 2}, {("t", 0): 10, ("t", 1): 5}, {("t", 0): [(100, 4)], ("t", 1): [(100, 0)]})


def plan(**options: Any) -> list[Range]:
    return plan_batch(CLUSTER, read_options(**options))


def test_all_that_is_there() -> None:
    assert plan() == [Range("t", 0, 2, 10), Range("t", 1, 0, 5)]


@pytest.mark.parametrize("loss", ["true", "false"])
@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": '{"t":{"0":11,"1":0}}'},
        {"startingOffsets": '{"t":{"0":6,"1":0}}', "endingOffsets": '{"t":{"0":5,"1":5}}'},
        {"startingTimestamp": "100", "endingOffsets": '{"t":{"0":3,"1":5}}'},
    ],
)
def test_a_start_beyond_the_end_is_an_error(options: dict[str, str], loss: str) -> None:
    with pytest.raises(OptionError, match="t-0 lies beyond its end"):
        plan(failOnDataLoss=loss, **options)


def test_a_start_at_the_end_reads_nothing() -> None:
    assert [r.size for r in plan(startingOffsets='{"t":{"0":10,"1":5}}')] == [0, 0]


def test_an_end_beyond_the_end_is_data_loss() -> None:
    options = {"endingOffsets": '{"t":{"0":12,"1":5}}'}
    with pytest.raises(DataLossError, match="t-0 ends at 10, before the end 12"):
        plan(**options)
    assert plan(failOnDataLoss="false", **options) == plan()
    both = plan(failOnDataLoss="false", startingOffsets='{"t":{"0":11,"1":0}}', **options)
    assert [r.size for r in both] == [0, 5]
