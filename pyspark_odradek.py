"""Where Spark looks for the ``odradek`` format by itself: it imports every top-level module named ``pyspark_*``.

It does so for the first Python format that a session asks for, whichever that is. So this module can be imported
beside a user's ``log.py`` too; what is wrong is said to those who use the format.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

try:
    from spark_jobs.source import OdradekDataSource as DefaultSource
except ImportError as error:
    _WHY = str(error)

    class DefaultSource(DataSource):  # type: ignore[no-redef]
        """Stands for the format where it can't be imported."""

        def __init__(self, options: dict[str, str]) -> None:
            raise ImportError(_WHY)

        @classmethod
        def name(cls) -> str:
            return "odradek"

        def schema(self) -> Any:
            raise ImportError(_WHY)


__all__ = ["DefaultSource"]
