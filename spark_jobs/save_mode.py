"""``frame.write.format("odradek").save()`` without a save mode appends, as with Spark's Kafka connector.

Spark's own default, ``errorifexists``, is refused by Spark for every Python source before the source is asked. So the
mode is set where PySpark's writer hands over to Spark, for this format only.
"""

from __future__ import annotations

import functools
from typing import Any

from pyspark.sql.readwriter import DataFrameWriter

_MARK = "_odradek_appends"


def append_by_default(format_name: str) -> None:
    """Let the classic PySpark writer of this process append to the format when no mode is named."""
    save = DataFrameWriter.save
    if getattr(save, _MARK, False):
        return

    @functools.wraps(save)
    def append_or_save(
        writer: Any,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        chosen = getattr(writer, "_jwrite", None)
        if mode is None and chosen is not None and (format or chosen.source()) == format_name:
            is_default = chosen.curmode().name() == "ErrorIfExists"
            mode = "append" if is_default else None
        save(writer, path, format, mode, partitionBy, **options)

    setattr(append_or_save, _MARK, True)
    DataFrameWriter.save = append_or_save  # type: ignore[method-assign, assignment]
