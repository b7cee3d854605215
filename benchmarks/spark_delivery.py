"""What the effectively-once sink costs beside the one that writes at least once, without Spark around it.

    python -m benchmarks.spark_delivery [--quick] [--json] [--broker kafka] [--rounds 5] [--rows 200000]

The tasks of a batch run one after the other in this process, then the driver's commit: rows of 100 bytes in four
tasks, one each (the cost by batch: the requests) and many (the cost by row: the checksum). Shown are the medians of the
rounds, in ms of wall time for a whole batch and of CPU of the client.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from broker.dev.processes import free_ports
from network.client.cluster_client import ClusterClient
from spark_jobs import effectively_once as once
from spark_jobs.effectively_once import Place
from spark_jobs.sink import write_batches, write_once
from spark_jobs.write_options import WriteOptions
from tests.support import wire
from tests.support.cluster import CLOCK, Kind, running_cluster
from tests.support.zookeeper_servers import zookeeper_server

TASKS = 4
TOPIC = "delivery"


def batch(rows: int) -> pa.RecordBatch:
    """Rows of 100 bytes."""
    noise = np.random.default_rng(1).integers(0, 256, rows * 100, np.uint8).tobytes()
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * 100)
    value = pa.Array.from_buffers(pa.binary(), rows, [None, offsets, pa.py_buffer(noise)])
    return pa.RecordBatch.from_arrays([value], ["value"])


def at_least_once(options: WriteOptions, _: int, table: pa.RecordBatch) -> None:
    """A batch as Spark runs its tasks."""
    for _ in range(TASKS):
        write_batches(options, iter([table]))


def effectively_once(options: WriteOptions, number: int, table: pa.RecordBatch) -> None:
    """A batch with transactions and their commit; each task and the driver with a client of its own, as in Spark."""
    prepared = []
    for task in range(TASKS):
        with ClusterClient(options.bootstrap_servers, options.client_id, CLOCK) as client:
            place = Place(f"odradek-cost-{table.num_rows}", number, task)
            written = write_once(options, client, CLOCK, place, iter([table]))
            assert written.prepared is not None
            prepared.append(written.prepared)
    with ClusterClient(options.bootstrap_servers, options.client_id, CLOCK) as client:
        once.commit(client, CLOCK, options, prepared)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two rounds, many are 5,000 rows")
    parser.add_argument("--json", action="store_true", help="one object on standard output, in ms")
    parser.add_argument("--broker", choices=["odradek", "kafka"], default="odradek")
    parser.add_argument("--rounds", type=int, help="5")
    parser.add_argument("--rows", type=int, help="of each task (200,000)")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    kind: Kind = given.broker
    rounds = given.rounds or (2 if given.quick else 5)
    many = given.rows or (5_000 if given.quick else 200_000)
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        zookeeper = zookeeper_server("embedded", Path(name) / "zookeeper", free_ports(1)[0])
        try:
            zookeeper.wait_until_ready(CLOCK)
            with running_cluster([kind], Path(name) / "c", f"{zookeeper.connect}/delivery") as cluster:
                wire.create_topic(cluster, TOPIC, partitions=3)
                options = WriteOptions.parse({"kafka.bootstrap.servers": cluster.bootstrap, "topic": TOPIC})
                for rows in (1, many):
                    table = batch(rows)
                    for measured in (at_least_once, effectively_once):
                        times: list[tuple[float, float]] = []
                        for number in range(rounds + 1):
                            begun = time.perf_counter(), time.process_time()
                            measured(options, number, table)
                            times.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
                        wall, cpu = (statistics.median(each) * 1000 for each in zip(*times[1:], strict=True))
                        title = measured.__name__.replace("_", " ")
                        found[f"{TASKS} tasks of {rows} rows, {title}"] = {"ms": wall, "cpu_ms": cpu}
        finally:
            zookeeper.stop()
    if given.json:
        print(json.dumps(found))
        return
    for name, each in found.items():
        print(f"{name:<40}: {each['ms']:7.1f} ms, CPU {each['cpu_ms']:7.1f} ms")


if __name__ == "__main__":
    main()
