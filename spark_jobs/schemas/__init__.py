"""Values that were written with a schema registry, decoded to columns: Avro, Protobuf and JSON Schema.

``from_schema_registry`` works on batches and streams alike, over Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spark_jobs.guard import check_packages

check_packages()

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

METRICS = "from_schema_registry"


def from_schema_registry(
    frame: DataFrame,
    registry: str,
    *,
    subject: str | None = None,
    version: str | int = "latest",
    schema_id: int | None = None,
    message: str | None = None,
    column: str = "value",
    into: str | None = None,
    mode: str = "fail",
    dead_letter: Mapping[str, str] | None = None,
    metrics: str | Observation = METRICS,
    user: str | None = None,
    password: str | None = None,
    ca: str | None = None,
    timeout_ms: int = 10_000,
    cache_size: int = 1000,
) -> DataFrame:
    """The frame with ``column`` decoded, in its place or ``into`` another.

    ``registry`` is a URL or a folder (docs/spark.md says what is in it). The reader schema, which gives the type, is a
    ``version`` of a ``subject``, or the schema with an id; each record is read by the schema that it names, and
    becomes the reader's form. ``message`` says which of a Protobuf file.

    A record that can't be decoded fails the query (``mode="fail"``), is null (``"null"``), or goes as it was to a
    topic (``"dead-letter"``), which ``dead_letter`` names in the sink's options, with the headers error, topic,
    partition and offset, and is left out. What was decoded and what was not is counted under ``metrics``: in the
    progress of a stream as ``observedMetrics``, of a batch in the Observation that is given. A registry that does not
    answer fails the query in every mode.

    Raises RegistryError, UnsupportedSchemaError, OptionError and ValueError before anything is read.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    from spark_jobs.schemas.apply import DEAD_LETTER, ERROR, MODES, Decode, make_decoder, spark_type
    from spark_jobs.schemas.registry import open_registry
    from spark_jobs.write_options import WriteOptions

    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; give one of {', '.join(MODES)}")
    if (mode == DEAD_LETTER) != (dead_letter is not None):
        raise ValueError("dead_letter, the options of a sink, goes with mode='dead-letter'")
    if (subject is None) == (schema_id is None):
        raise ValueError("give the reader schema: either subject (and version) or schema_id")
    options = None if dead_letter is None else WriteOptions.parse(dead_letter)
    if options is not None and options.topic is None:
        raise ValueError("dead_letter has no topic")
    found = open_registry(registry, user=user, password=password, ca=ca, timeout_ms=timeout_ms, cache_size=cache_size)
    reader = found.by_id(schema_id) if schema_id is not None else found.by_subject(str(subject), str(version))
    target = into or column
    kept = [field for field in frame.schema.fields if field.name != target]
    if len({field.name for field in kept}) != len(kept) or column not in frame.columns:
        raise ValueError(f"the frame needs one column {column!r}, and no two of a name; it has {frame.columns}")
    decoded = spark_type(make_decoder(found.place, reader, message).arrow_type)
    schema = StructType([*kept, StructField(target, decoded), StructField(ERROR, StringType())])
    work = Decode(found, reader, message, column, target, mode, options)
    result = frame.mapInArrow(work, _nullable(schema))
    result = result.observe(metrics, f.count(f.lit(1)).alias("records"), f.count(ERROR).alias("failed"))
    if mode == DEAD_LETTER:
        result = result.where(f.isnull(ERROR))
    names = [name for name in frame.columns if name != target]
    names.insert(frame.columns.index(target) if target in frame.columns else len(names), target)
    return result.select(*(f.col(f"`{name}`") for name in names))


def _nullable(schema: Any) -> Any:
    """Every field may be null: Arrow's are, and Spark compares the two."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(schema, StructType):
        return StructType([StructField(each.name, _nullable(each.dataType)) for each in schema.fields])
    if isinstance(schema, ArrayType):
        return ArrayType(_nullable(schema.elementType))
    if isinstance(schema, MapType):
        return MapType(_nullable(schema.keyType), _nullable(schema.valueType))
    return schema


__all__ = ["METRICS", "from_schema_registry"]
