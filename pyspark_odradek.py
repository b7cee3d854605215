"""Where Spark looks for the ``odradek`` format by itself: it imports every top-level module named ``pyspark_*``."""

from spark_jobs.source import OdradekDataSource as DefaultSource

__all__ = ["DefaultSource"]
