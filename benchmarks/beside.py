"""What produce loses while the broker compacts, converts for old consumers, or compresses anew what producers send.

    python -m benchmarks.beside [--quick] [--json] [--targets odradek,kafka] [--rounds N] [--only TEXT]
                                [--data-dir DIR] [--set KEY=VALUE] [--python PROGRAM]

One broker. In the foreground two producers, one after the other: one record of 100 B a request, the next when the last
is acknowledged (requests/s and their latency), and batches of 1 MB with records of 1 KB, two requests in flight (MB/s).
Beside it one of these, each a process of its own that asks for more as soon as it has its answer:

- nothing;
- `compaction`: the cleaner has 100-byte records of 50,000 keys to compact from before until after;
- `fetch 11` and `fetch 2`: a consumer reads 1 MB of 1,000 records in lz4 at a time, as they are stored and converted;
- `produce lz4` and `lz4 to zstd`: a producer sends such batches, which are stored as sent or compressed anew;
- `produce 3` and `produce 2`: a producer sends 1 MB of 1,000 records, of today's format and as the messages before it,
  which are converted.

So the pairs tell what is the conversion's and what any client takes. Clients do without a client library, that they
take little of the cores. `--set` gives a setting of the broker, `--python` another interpreter,
to compare.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.targets import (
    CLOCK,
    ROOT,
    BrokerTarget,
    KafkaTarget,
    OdradekTarget,
    children,
    cpu_seconds,
    start_zookeeper,
)
from log.records.compression import Codec
from log.records.old_formats import encode_message
from log.records.record import BatchBuilder
from network.client.connection import Connection
from network.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.reference.kafka import libraries

WORK = ("nothing", "compaction", "fetch 11", "fetch 2", "produce lz4", "lz4 to zstd", "produce 3", "produce 2")
KEYS, KEYS_A_BATCH = 50_000, 500
TOPIC_CONFIGS: dict[str, dict[str, str]] = {
    "singles": {},
    "bulk": {},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1", "segment.bytes": str(16 << 20)},
    "stored": {},
    "as-sent": {},
    "forced": {"compression.type": "zstd"},
}
SETTINGS = {"log.cleaner.backoff.ms": "200", "log.segment.bytes": str(64 << 20), "log.retention.bytes": str(128 << 20)}
_TOPIC_RESOURCE = 2
_WAIT_S = 300.0
Figures = dict[str, float]


def batch(count: int, size: int, codec: Codec = Codec.NONE, first_key: int | None = None) -> bytes:
    """`count` records whose values are half random."""
    builder, now = BatchBuilder(codec=codec), CLOCK.wall_ms()
    for number in range(count):
        key = None if first_key is None else b"%010d" % ((first_key + number) % KEYS)
        builder.append(now, key, os.urandom(size // 2) + bytes(size - size // 2))
    return bytes(builder.build())


def old_messages(count: int, size: int) -> bytes:
    """The same as messages of magic 1, each for itself."""
    now, value = CLOCK.wall_ms(), os.urandom(size // 2) + bytes(size - size // 2)
    return b"".join(encode_message(1, number, now, None, value) for number in range(count))


def connect(address: str) -> Connection:
    host, port = address.rsplit(":", 1)
    return Connection(host, int(port), "beside", CLOCK, 30_000, 60_000)


def produce_request(topic: str, records: bytes) -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data])


def check(answer: object) -> None:
    for topic in answer.responses:  # type: ignore[attr-defined]
        for one in getattr(topic, "partition_responses", None) or topic.partitions:
            if one.error_code:
                raise RuntimeError(f"error {one.error_code} for {topic}")


# What runs beside, in processes of their own


def load_by_producing(connection: Connection, topic: str, records: bytes, version: int = 7) -> Iterator[int]:
    request = produce_request(topic, records)
    while True:
        check(connection.call(request, version))
        yield 1_000_000


def load_by_fetching(connection: Connection, topic: str, version: int) -> Iterator[int]:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=topics)
    while True:
        check(connection.call(request, version))
        yield 1_000_000


def serve_load(address: str, work: str) -> None:
    """Until standard input ends; then prints bytes of values and seconds."""
    os.set_blocking(0, False)
    with connect(address) as connection:
        match work:
            case "fetch 11" | "fetch 2":
                steps = load_by_fetching(connection, "stored", int(work.split()[1]))
            case "produce 3":
                steps = load_by_producing(connection, "as-sent", batch(1000, 1000), 3)
            case "produce 2":
                steps = load_by_producing(connection, "as-sent", old_messages(1000, 1000), 2)
            case _:
                topic = "as-sent" if work == "produce lz4" else "forced"
                steps = load_by_producing(connection, topic, batch(1000, 1000, Codec.LZ4))
        done, began = 0, time.perf_counter()
        for size in steps:
            done += size
            try:
                if not os.read(0, 1):
                    break
            except BlockingIOError:
                continue
    print(json.dumps({"bytes": done, "seconds": time.perf_counter() - began}))


# The foreground


def one_at_a_time(connection: Connection, seconds: float) -> Figures:
    request = produce_request("singles", batch(1, 100))
    took: list[float] = []
    began = last = time.perf_counter()
    while last - began < seconds:
        check(connection.call(request, 7))
        now = time.perf_counter()
        took.append(now - last)
        last = now
    took.sort()
    found = {f"p{percent:g} ms": took[int(percent / 100 * (len(took) - 1))] * 1000 for percent in (50, 99, 99.9)}
    return {"requests/s": len(took) / (last - began), **found}


def in_bulk(connection: Connection, seconds: float) -> Figures:
    request = produce_request("bulk", batch(1000, 1000))
    connection.send_request(request, 7)
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        connection.send_request(request, 7)
        check(connection.receive_response())
        count += 1
    took = time.perf_counter() - began
    check(connection.receive_response())
    return {"MB/s": count / took}


class Bench:
    """One broker with its topics."""

    def __init__(self, target: BrokerTarget, seconds: float, compacted_mb: int) -> None:
        self._target = target
        self._seconds = seconds
        self._compacted_mb = compacted_mb
        self._connection = connect(target.address)
        self._batches = [batch(KEYS_A_BATCH, 100, first_key=first) for first in range(0, KEYS, KEYS_A_BATCH)]

    def prepare(self) -> None:
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            for name, configs in TOPIC_CONFIGS.items()
        ]
        self._connection.call(CreateTopicsRequest(topics=topics, timeout_ms=20_000), 5)
        deadline = time.monotonic() + 30
        while True:
            try:
                for name in TOPIC_CONFIGS:
                    if name not in ("compacted", "stored"):
                        check(self._connection.call(produce_request(name, batch(1, 100)), 7))
                for _ in range(4):
                    check(self._connection.call(produce_request("stored", batch(1000, 1000, Codec.LZ4)), 7))
                break
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        for work in (one_at_a_time, in_bulk):
            work(self._connection, 1.0)

    def measure(self, work: str) -> Figures:
        """Figures of the foreground, and how fast what ran beside it was. Raises RuntimeError if it ended before."""
        with self._beside(work) as finish:
            time.sleep(0.5)
            used = self._used()
            found = one_at_a_time(self._connection, self._seconds) | in_bulk(self._connection, self._seconds)
            found["broker's cores"] = (self._used() - used) / (2 * self._seconds)
            found["beside, MB/s"] = finish()
        return found

    def _used(self) -> float:
        pid = self._target.pid
        return sum(cpu_seconds(each) for each in (pid, *children(pid)))

    @contextmanager
    def _beside(self, work: str) -> Iterator[Callable[[], float]]:
        if work == "nothing":
            yield lambda: 0.0
        elif work == "compaction":
            yield self._compaction()
        else:
            command = [sys.executable, "-m", "benchmarks.beside", "--load", work, "--address", self._target.address]
            with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

                def finish() -> float:
                    found = json.loads(process.communicate(timeout=_WAIT_S)[0])
                    return float(found["bytes"] / found["seconds"] / 1e6)

                yield finish

    def _compaction(self) -> Callable[[], float]:
        self._alter("1")
        filled = 0
        while filled < self._compacted_mb << 20:
            for one in self._batches:
                check(self._connection.call(produce_request("compacted", one), 7))
                filled += len(one)
        size, began = self._size(), time.perf_counter()
        self._alter("0")

        def finish() -> float:
            if self._size() < size / 2:
                raise RuntimeError("the compaction ended before the measurement; give it more megabytes")
            while self._size() > size / 2:
                if time.perf_counter() - began > _WAIT_S:
                    raise RuntimeError("the compaction does not end")
                time.sleep(0.05)
            return size / (time.perf_counter() - began) / 1e6

        return finish

    def _size(self) -> int:
        """Of what is compacted: the swap of its segments shows."""
        found = 0
        for path in (self._target.directory / "data" / "compacted-0").glob("*.log"):
            try:
                found += path.stat().st_size
            except FileNotFoundError:
                continue
        return found

    def _alter(self, ratio: str) -> None:
        config = AlterableConfig(name="min.cleanable.dirty.ratio", config_operation=0, value=ratio)
        resource = AlterConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name="compacted", configs=[config])
        answer = self._connection.call(IncrementalAlterConfigsRequest(resources=[resource]), 0)
        if answer.responses[0].error_code:
            raise RuntimeError(f"{answer.responses[0]}")

    def close(self) -> None:
        self._connection.close()


def run(
    targets: list[str],
    works: list[str],
    rounds: int,
    seconds: float,
    compacted_mb: int,
    directory: Path,
    settings: dict[str, str],
    python: str,
) -> dict[str, dict[str, Figures]]:
    """Medians by target and what ran beside."""
    found: dict[str, dict[str, list[Figures]]] = {}
    with ExitStack() as stack:
        server = start_zookeeper(directory)
        stack.callback(server.stop)
        benches = {}
        for name in targets:
            target: BrokerTarget
            if name == "kafka":
                target = KafkaTarget(directory, server.connect, libraries(), SETTINGS)
            else:
                target = OdradekTarget(directory, server.connect, {**SETTINGS, **settings})
                target.python = python
            stack.callback(target.stop)
            target.start()
            bench = benches[name] = Bench(target, seconds, compacted_mb)
            stack.callback(bench.close)
            bench.prepare()
        for _ in range(rounds):
            for work in works:
                for name, bench in benches.items():
                    found.setdefault(name, {}).setdefault(work, []).append(bench.measure(work))
    return {
        name: {
            work: {key: statistics.median(each[key] for each in samples) for key in samples[0]}
            for work, samples in by_work.items()
        }
        for name, by_work in found.items()
    }


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round of Odradek only")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--targets", help="of odradek, kafka (odradek)")
    parser.add_argument("--rounds", type=int, help="override the number of rounds (3)")
    parser.add_argument("--only", default="", help="only work whose name contains this text")
    parser.add_argument("--data-dir", type=Path, help="where brokers keep their data (default: a temporary folder)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of Odradek")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that Odradek runs on")
    parser.add_argument("--load", choices=WORK[2:], help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        serve_load(options.address, options.load)
        return
    works = [work for work in WORK if options.only in work or work == WORK[0]]
    seconds, megabytes = (1.0, 32) if options.quick else (4.0, 96)
    with tempfile.TemporaryDirectory(dir=options.data_dir, prefix="beside-") as directory:
        found = run(
            (options.targets or "odradek").split(","),
            works,
            options.rounds or (1 if options.quick else 3),
            seconds,
            megabytes,
            Path(directory),
            dict(one.split("=", 1) for one in options.set),
            options.python,
        )
    if options.json:
        print(json.dumps(found))
        return
    for name, by_work in found.items():
        table = Table(title=f"{name}; {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
        table.add_column("beside")
        for key in next(iter(by_work.values())):
            table.add_column(key, justify="right")
        for work, figures in by_work.items():
            table.add_row(work, *(f"{value:,.2f}" if value < 100 else f"{value:,.0f}" for value in figures.values()))
        Console(width=120).print(table)


if __name__ == "__main__":
    main()
