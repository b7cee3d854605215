"""CPU that a broker spends on one request, from the bytes read to the answer written.

    python -m benchmarks.request_path [--quick] [--json] [--top N] [--window N]
    python -m benchmarks.request_path --check | --store

A whole broker runs in this process, but for the requests that are measured the network layer's reader is driven from
here, over a socket pair: no event loop, no other thread and no scheduler is in the figure, so it moves by a few percent
where rates on a shared machine move by half. `us` is the smallest CPU time of many rounds of `--window` requests (32)
read at once, as a client that does not wait for answers sends them; `bytecodes` is how many instructions the
interpreter executed for a request, which is the same in every run. `--top N` names the functions that executed most.
`--check` only counts, on the embedded ZooKeeper, and ends with 1 and names if more than is stored in
`request_path.json` is needed; `--store` renews that file (see `benchmarks.bytecode_bound`).

Workloads: Produce of one record of 100 bytes (acks 1), Produce of 100 such records, Fetch of one such batch,
OffsetCommit of one offset.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import select
import socket
import sys
import sysconfig
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from benchmarks import bytecode_bound
from benchmarks.hammer import COMMIT_ERROR_AT, commit_frame, wait_answered
from benchmarks.targets import BROKER_SETTINGS, CLOCK, HOST, start_zookeeper
from broker.config.kafka_config import KafkaConfig
from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper
from broker.requests.dispatcher import Dispatcher
from broker.requests.inline_apis import inline_rule
from broker.requests.registry import handlers_for
from broker.server import BrokerServer
from log.records.record import BatchBuilder
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.client.connection import Connection
from network.protocol.header import RequestHeader, encode_request
from network.protocol.message import Message
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from network.server.connection_info import ConnectionInfo
from network.server.connection_table import ConnectionTable
from network.server.request_metrics import RequestMetrics
from network.server.request_reader import RequestReader
from network.server.response_writer import ResponseWriter
from network.server.server_connection import ServerConnection
from network.server.transport import PlaintextTransport

TOPIC = "t"
_WARM_UP, _COUNTED = 20, 3
PRODUCE, FETCH = (0, 7), (1, 11)
GROUP = "g"
COMMIT = commit_frame(GROUP, TopicPartition(TOPIC, 0), 1)


class Loop:
    """Stands in for the event loop: what shall be called soon is called by `run`."""

    def __init__(self) -> None:
        self._soon: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def call_soon(self, function: Callable[..., None], *arguments: Any) -> None:
        self._soon.append((function, arguments))

    def ignore(self, *arguments: Any) -> None:
        pass

    add_reader = remove_reader = add_writer = remove_writer = ignore

    def run(self) -> None:
        while self._soon:
            soon, self._soon = self._soon, []
            for function, arguments in soon:
                function(*arguments)


class DrivenConnection:
    """One connection of a broker, driven by hand."""

    def __init__(self, broker: BrokerServer) -> None:
        self._loop = Loop()
        self._metrics = RequestMetrics(broker.metrics)
        table = ConnectionTable(cast(Any, self._loop), "PLAINTEXT", broker.socket_server.quotas, CLOCK, -1, -1)
        unused: Any = None
        writer = ResponseWriter(table, self._metrics, unused, CLOCK, lambda: None)
        writer.thread_id = threading.get_ident()
        self._reader = RequestReader(
            table,
            writer,
            broker.socket_server.request_channel,
            Dispatcher(broker.context, handlers_for(broker.config)).handle,
            inline=inline_rule(broker.context),
            memory_pool=None,
            clock=CLOCK,
            max_request_bytes=100 << 20,
        )
        table.on_readable, table.on_writable = self._reader.on_readable, writer.on_writable
        table.on_closed = lambda connection: None
        writer.resume = self._reader.resume
        self._client, server = socket.socketpair()
        self._client.settimeout(10)
        for each in (self._client, server):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        server.setblocking(False)
        self._connection = ServerConnection(ConnectionInfo("benchmark"), PlaintextTransport(server), HOST, 0)
        table.add(self._connection)

    def send(self, frames: bytes) -> None:
        self._client.sendall(frames)

    def serve(self) -> None:
        """Read what was sent, and answer it."""
        self._reader.on_readable(self._connection)
        while self._connection.body is not None:
            self._reader.on_readable(self._connection)
        self._loop.run()

    def serve_what_comes(self, timeout_s: float) -> bool:
        """Wait for bytes, read them and answer what is whole; False if none came."""
        if not select.select([self._connection.transport], [], [], timeout_s)[0]:
            return False
        self._reader.on_readable(self._connection)
        self._loop.run()
        return True

    def receive(self, answers: int) -> None:
        """Take the answers, so that the socket has room."""
        data = b""
        while answers:
            data += self._client.recv(1 << 20)
            while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
                data = data[4 + int.from_bytes(data[:4], "big") :]
                answers -= 1
        self._metrics.flush()


@dataclass
class Outcome:
    us: float
    bytecodes: float
    functions: dict[str, float]
    """Bytecodes of each, those that executed most first."""


def count_bytecodes(work: Callable[[], None]) -> Counter[CodeType]:
    counts: Counter[CodeType] = Counter()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            counts[frame.f_code] += 1
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return counts


def measure(path: DrivenConnection, frames: bytes, window: int, rounds: int) -> Outcome:
    def once() -> int:
        path.send(frames)
        began = time.thread_time_ns()
        path.serve()
        spent = time.thread_time_ns() - began
        path.receive(window)
        return spent

    def counted() -> Counter[CodeType]:
        path.send(frames)
        counts = count_bytecodes(path.serve)
        path.receive(window)
        return counts

    for _ in range(_WARM_UP):
        once()
    best = min(once() for _ in range(rounds)) if rounds else 0
    # Least of few: now and then a request has to do what is due once a second.
    counts = min((counted() for _ in range(_COUNTED)), key=Counter.total)
    functions: Counter[str] = Counter()
    for code, count in counts.items():
        functions[f"{_file(code)} {code.co_qualname}"] += count
    return Outcome(
        best / window / 1000,
        counts.total() / window,
        {name: count / window for name, count in functions.most_common()},
    )


_ROOTS = (str(Path(__file__).resolve().parents[1]) + "/", sysconfig.get_path("stdlib") + "/")


def _file(code: CodeType) -> str:
    """Below the project or the standard library, so that it is the same wherever these are."""
    for root in _ROOTS:
        if code.co_filename.startswith(root):
            return code.co_filename.removeprefix(root)
    return code.co_filename


def batch(records: int, size: int = 100) -> bytes:
    builder = BatchBuilder(base_offset=0)
    now = CLOCK.wall_ms()
    for number in range(records):
        builder.append(now + number // 50, None, bytes(size), ())
    return bytes(builder.build())


def produce(records: bytes) -> Message:
    data = [PartitionProduceData(index=0, records=records)]
    return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)])


def fetch(size: int) -> Message:
    partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=size)]
    return FetchRequest(
        replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, session_epoch=-1,
        topics=[FetchTopic(topic=TOPIC, partitions=partitions)],
    )  # fmt: skip


def frames_of(api: tuple[int, int], message: Message, window: int) -> bytes:
    return b"".join(encode_request(RequestHeader(*api, number, "rdkafka"), message) for number in range(window))


@contextlib.contextmanager
def running_broker(directory: Path, zookeeper: str) -> Iterator[tuple[BrokerServer, int]]:
    """A broker in this process, and its port."""
    port = free_ports(1)[0]
    settings = {
        **BROKER_SETTINGS,
        "broker.id": "1",
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(directory / "data"),
        "zookeeper.connect": zookeeper,
    }
    broker = BrokerServer(KafkaConfig(settings))
    broker.startup()
    try:
        yield broker, port
    finally:
        broker.shutdown()


@contextlib.contextmanager
def driven_broker(directory: Path, zookeeper: str) -> Iterator[DrivenConnection]:
    """A connection to a broker in this process, which leads the topic's one partition and coordinates the group."""
    with running_broker(directory, zookeeper) as (broker, port):
        create = CreateTopicsRequest(
            topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)], timeout_ms=20_000
        )

        def created() -> bool:
            with Connection(HOST, port, "benchmark", CLOCK, 10_000, 30_000) as connection:
                connection.call(create, 5)
            return TOPIC in broker.context.metadata_cache.snapshot.topics

        if not wait_until(created, CLOCK, 30_000):
            raise RuntimeError("the topic was not created")
        with ClusterClient(f"{HOST}:{port}", "benchmark", CLOCK) as client:
            client.coordinator(GROUP)
        wait_answered(f"{HOST}:{port}", COMMIT, COMMIT_ERROR_AT)
        yield DrivenConnection(broker)


def run(directory: Path, zookeeper: str, window: int, rounds: int) -> dict[str, Outcome]:
    with driven_broker(directory, zookeeper) as path:
        lone, many = batch(1), batch(100)
        return {
            "produce 1 record": measure(path, frames_of(PRODUCE, produce(lone), window), window, rounds),
            "produce 100 records": measure(path, frames_of(PRODUCE, produce(many), 4), 4, rounds),
            "fetch 1 record": measure(path, frames_of(FETCH, fetch(len(lone)), window), window, rounds),
            "commit 1 offset": measure(path, COMMIT * window, window, rounds),
        }


def start_embedded(directory: Path) -> EmbeddedZooKeeper:
    server = EmbeddedZooKeeper(directory / "zookeeper", free_ports(1)[0], directory / "zookeeper.log")
    server.wait_until_ready(CLOCK)
    return server


def check(measured: dict[str, dict[str, float]]) -> None:
    """Ends the process with 1 if a path has grown, with 3 if nothing is stored of this CPython."""
    version = bytecode_bound.this_version()
    stored = bytecode_bound.load().get(version)
    if stored is None:
        print(f"nothing is stored of CPython {version}", file=sys.stderr)
        sys.exit(3)
    told = bytecode_bound.grown(measured, stored)
    if told:
        print("\n".join([*told, "If it is meant: python -m benchmarks.request_path --store"]))
        sys.exit(1)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.request_path", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--top", type=int, default=0, help="name so many functions")
    parser.add_argument("--window", type=int, default=32, help="small requests that are read at once")
    bound = parser.add_mutually_exclusive_group()
    bound.add_argument("--check", action="store_true", help="fail if more bytecodes than stored are needed")
    bound.add_argument("--store", action="store_true", help="store the bytecodes")
    options = parser.parse_args(arguments)
    counts_only = options.check or options.store
    rounds = 0 if counts_only else 100 if options.quick else 600
    with tempfile.TemporaryDirectory(prefix="request-path-") as name:
        server = start_embedded(Path(name)) if counts_only else start_zookeeper(Path(name))
        try:
            found = run(Path(name), server.connect, options.window, rounds)
        finally:
            server.stop()
    if counts_only:
        measured = {name: each.functions for name, each in found.items()}
        if options.store:
            bytecode_bound.store(measured)
        else:
            check(measured)
        return
    if options.json:
        print(json.dumps({name: {"us": each.us, "bytecodes": each.bytecodes} for name, each in found.items()}))
        return
    table = Table(title="One request, from read to answer")
    for column in ("", "CPU, us", "bytecodes"):
        table.add_column(column, justify="right" if column else "left")
    for name, each in found.items():
        table.add_row(name, f"{each.us:.1f}", f"{each.bytecodes:,.0f}")
    console = Console(width=120)
    console.print(table)
    for name, each in found.items():
        for function, count in list(each.functions.items())[: options.top]:
            console.print(f"{name}: {count:7.1f} {function}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
