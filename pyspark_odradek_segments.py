"""Where Spark looks for the ``odradek-segments`` format: it takes one format from each ``pyspark_*`` module."""

from __future__ import annotations

from pyspark_odradek import stand_in

try:
    from spark_jobs.segments import SegmentsDataSource as DefaultSource
except ImportError as error:
    DefaultSource = stand_in("odradek-segments", str(error))  # type: ignore[assignment, misc]

__all__ = ["DefaultSource"]
