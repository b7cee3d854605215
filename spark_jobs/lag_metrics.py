"""The lag of streaming queries in Prometheus' text format.

``prometheus_text(listener)`` gives the text; what serves it (a route of the driver's own, a file for node_exporter's
textfile collector) is the application's.
"""

from __future__ import annotations

from collections.abc import Callable

from spark_jobs.lag import LagListener, SourceLag
from spark_jobs.options import Partition

# Series of partitions in one answer; the rest is left out and counted.
MAX_PARTITIONS = 10_000

_BY_PARTITION: dict[str, tuple[str, Callable[[SourceLag, Partition], int]]] = {
    "odradek_spark_records_behind": (
        "Offsets between where the query is and the end of the partition.",
        lambda lag, partition: lag.by_partition[partition],
    ),
    "odradek_spark_position": (
        "The offset that the query reads next.",
        lambda lag, partition: lag.position.get(partition, 0),
    ),
}


def prometheus_text(listener: LagListener) -> str:
    """Each running query's sources by partition, and commits to their consumer groups."""
    sources = [listener.by_source[key] for key in sorted(listener.by_source)]
    places = [(lag, partition) for lag in sources for partition in sorted(lag.latest)]
    lines: list[str] = []
    for name, (text, value) in _BY_PARTITION.items():
        lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
        for lag, (topic, number) in places[:MAX_PARTITIONS]:
            labels = _labels(lag, topic=topic, partition=str(number))
            lines.append(f"{name}{labels} {value(lag, (topic, number))}")
    name = "odradek_spark_partitions_left_out"
    lines += [f"# HELP {name} Partitions beyond {MAX_PARTITIONS}, which have no series.", f"# TYPE {name} gauge"]
    lines.append(f"{name} {max(0, len(places) - MAX_PARTITIONS)}")
    for name, text, field in (
        ("odradek_spark_group_commits_total", "Commits to the consumer group.", "commits"),
        ("odradek_spark_group_commit_failures_total", "Commits that the group refused.", "failures"),
    ):
        lines += [f"# HELP {name} {text}", f"# TYPE {name} counter"]
        lines += [f"{name}{_labels(lag)} {getattr(lag, field)}" for lag in sources]
    return "\n".join(lines) + "\n"


def _labels(lag: SourceLag, **more: str) -> str:
    values = {"query_id": lag.query_id, "query": lag.query_name, "source": str(lag.source), **more}
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
