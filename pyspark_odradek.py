"""Where Spark looks for the ``odradek`` format by itself: it imports every top-level module named ``pyspark_*``.

It does so for the first Python format that a session asks for, whichever that is. So this module can be imported
beside a user's ``log.py`` too; what is wrong is said to those who use the format.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource


def stand_in(format_name: str, why: str) -> type[DataSource]:
    """A source that stands for a format which can't be imported, and says why when it is used."""

    class DefaultSource(DataSource):
        def __init__(self, options: dict[str, str]) -> None:
            raise ImportError(why)

        @classmethod
        def name(cls) -> str:
            return format_name

        def schema(self) -> Any:
            raise ImportError(why)

    return DefaultSource


try:
    from spark_jobs.source import OdradekDataSource as DefaultSource
except ImportError as error:
    DefaultSource = stand_in("odradek", str(error))  # type: ignore[assignment, misc]

__all__ = ["DefaultSource", "stand_in"]
