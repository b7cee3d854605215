"""Decoding a column of framed Avro: `from_schema_registry`'s way over Arrow batches, and a row at a time.

    python -m benchmarks.schema_registry [--quick] [--json] [--rows 200000] [--spark]

Both give the same values by the same library; what differs is how rows come to Python and go back. Without Spark:
decoding alone, in one process, in rows a second. With ``--spark`` both as a query on ``local[2]`` (a Python UDF with
pickled rows beside ``mapInArrow``), each once before it is measured.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from spark_jobs.schemas import from_schema_registry
from spark_jobs.schemas.apply import NULL, Decode, make_decoder
from spark_jobs.schemas.registry import FolderRegistry

SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "page", "type": "string"},
        {"name": "user", "type": ["null", "string"]},
        {"name": "price", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
DDL = "id bigint, at timestamp, page string, user string, price double, tags array<string>"


def values(rows: int) -> list[bytes]:
    """Framed records."""
    parsed = fastavro.parse_schema(SCHEMA)
    found = []
    for n in range(rows):
        out = io.BytesIO()
        out.write(b"\0\0\0\0\1")
        record = {"id": n, "at": 1_700_000_000_000 + n, "page": f"/page/{n % 100}", "user": None if n % 3 else f"u{n}"}
        fastavro.schemaless_writer(out, parsed, {**record, "price": n / 7, "tags": ["a", "b"][: n % 3]})
        found.append(out.getvalue())
    return found


def in_process(rows: int, place: str) -> float:
    """Decoding alone, in rows a second."""
    column = pa.array(values(rows), pa.binary())
    registry = FolderRegistry.read(place)
    schema = registry.by_id(1)
    decoder = make_decoder(place, schema, None)
    work = Decode(registry, schema, None, "value", "value", NULL, None)
    start = time.perf_counter()
    for at in range(0, rows, 10_000):
        work.decode(decoder, column[at : at + 10_000])
    return rows / (time.perf_counter() - start)


def in_spark(rows: int, place: str) -> dict[str, float]:
    """As queries, in rows a second."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as data:
        spark.createDataFrame(pa.table({"value": pa.array(values(rows), pa.binary())}).to_pandas()).write.parquet(
            f"{data}/values"
        )
        frame = spark.read.parquet(f"{data}/values").repartition(4).persist()
        frame.count()
        parsed = fastavro.parse_schema(SCHEMA)

        def one(value: bytes) -> Any:
            return fastavro.schemaless_reader(io.BytesIO(bytes(value)[5:]), parsed, parsed)

        by_row: Any = f.udf(one, DDL, useArrow=False)
        ways: dict[str, Any] = {
            "over Arrow": lambda: from_schema_registry(frame, place, schema_id=1, mode="null"),
            "a row at a time": lambda: frame.select(by_row("value").alias("value")),
        }
        found: dict[str, float] = {}
        sums = set()
        for _ in range(2):  # the first time warms up
            for name, make in ways.items():
                start = time.perf_counter()
                sums.add(tuple(make().agg(f.sum("value.id"), f.sum(f.size("value.tags"))).first()))
                found[name] = rows / (time.perf_counter() - start)
        spark.stop()
    if len(sums) != 1:
        raise RuntimeError(f"the two ways give different values: {sums}")
    return found


def main() -> None:
    """Both, as the options say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20,000 rows")
    parser.add_argument("--json", action="store_true", help="one object on standard output, in rows a second")
    parser.add_argument("--rows", type=int, help="200,000")
    parser.add_argument("--spark", action="store_true", help="as queries, too")
    options = parser.parse_args()
    rows = options.rows or (20_000 if options.quick else 200_000)
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "1.avsc").write_text(json.dumps(SCHEMA))
        found = {"decoding alone": in_process(rows, place)}
        if options.spark:
            found |= in_spark(rows, place)
    if options.json:
        print(json.dumps(found))
        return
    for name, rate in found.items():
        print(f"{name}: {rate:,.0f} rows/s")


if __name__ == "__main__":
    main()
