"""Encode and decode cost of messages, against kio in the same run.

    python -m benchmarks.protocol [--quick] [--json]

kio's writer is Python, its reader is native code (Rust). Times are the median of rounds that alternate between the two,
in microseconds a message. `produce round` is what a broker does with the messages of a one-record request: request
header and body in, response frame out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from network.protocol.api import API, ApiKey
from network.protocol.header import (
    RequestHeader,
    decode_request_header,
    encode_request,
    encode_response_parts,
)
from network.protocol.message import Message, Request
from network.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from network.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from network.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)


def produce_request() -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=bytes(1 << 10))
    topic = TopicProduceData(name="orders.created", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=30000, topic_data=[topic])


def produce_response() -> ProduceResponse:
    partition = PartitionProduceResponse(index=3, base_offset=1 << 40, log_start_offset=17)
    return ProduceResponse(responses=[TopicProduceResponse(name="orders.created", partition_responses=[partition])])


def fetch_request(partitions: int) -> FetchRequest:
    entries = [
        FetchPartition(
            partition=index,
            current_leader_epoch=7,
            fetch_offset=1 << 33,
            last_fetched_epoch=7,
            partition_max_bytes=1 << 20,
        )
        for index in range(partitions)
    ]
    topics = [FetchTopic(topic_id=bytes(range(16)), partitions=entries)]
    return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, session_id=99, session_epoch=5, topics=topics)


def fetch_response(partitions: int) -> FetchResponse:
    """The headers of a response: every partition's records are empty."""
    entries = [
        PartitionData(
            partition_index=index,
            high_watermark=1 << 33,
            last_stable_offset=1 << 33,
            log_start_offset=5,
            aborted_transactions=[AbortedTransaction(producer_id=4, first_offset=12)] if index % 10 == 0 else None,
            records=b"",
        )
        for index in range(partitions)
    ]
    return FetchResponse(
        session_id=99, responses=[FetchableTopicResponse(topic_id=bytes(range(16)), partitions=entries)]
    )


def metadata_response(topics: int, partitions: int) -> MetadataResponse:
    brokers = [
        MetadataResponseBroker(node_id=node, host=f"broker-{node}.example.com", port=9092, rack=f"rack-{node}")
        for node in range(6)
    ]
    entries = [
        MetadataResponseTopic(
            name=f"topic-with-a-name-{topic}",
            topic_id=bytes(range(16)),
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=index % 6,
                    leader_epoch=12,
                    replica_nodes=[index % 6, (index + 1) % 6, (index + 2) % 6],
                    isr_nodes=[index % 6, (index + 1) % 6, (index + 2) % 6],
                )
                for index in range(partitions)
            ],
        )
        for topic in range(topics)
    ]
    return MetadataResponse(brokers=brokers, cluster_id="b6_xoTg5Rs6mHlE1fTzPqA", controller_id=1, topics=entries)


@dataclass
class Case:
    name: str
    message: Message
    version: int


CASES = [
    Case("Produce request, 1 KB", produce_request(), 9),
    Case("Produce request, 1 KB", produce_request(), 11),
    Case("Produce response", produce_response(), 11),
    Case("Fetch request, 1 partition", fetch_request(1), 17),
    Case("Fetch request, 100 partitions", fetch_request(100), 17),
    Case("Fetch response headers, 1 partition", fetch_response(1), 17),
    Case("Fetch response headers, 100 partitions", fetch_response(100), 17),
    Case("Metadata response, 1,000 partitions", metadata_response(50, 20), 12),
]


class KioWriter:
    """kio encodes into a file-like buffer."""

    def __init__(self, entity: Any) -> None:
        self.write = entity_writer(type(entity))
        self.entity = entity

    def __call__(self) -> bytes:
        buffer = BytesIO()
        self.write(buffer, self.entity)
        return buffer.getvalue()


def once(function: Callable[[], object], seconds: float) -> float:
    """Microseconds a call, over about `seconds`."""
    number = 1
    while True:
        start = time.perf_counter()
        for _ in range(number):
            function()
        elapsed = time.perf_counter() - start
        if elapsed >= seconds / 2:
            return elapsed / number * 1e6
        number = max(number * 2, int(number * seconds / max(elapsed, 1e-9)))


def medians(functions: list[Callable[[], object]], rounds: int, seconds: float) -> list[float]:
    """The median of each, measured in turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for index, function in enumerate(functions):
            times[index].append(once(function, seconds))
    return [statistics.median(each) for each in times]


def measure(case: Case, rounds: int, seconds: float) -> dict[str, Any]:
    message, version, cls = case.message, case.version, type(case.message)
    data = message.encode(version)
    kind: Any = EntityType.request if isinstance(message, Request) else EntityType.response
    read = entity_reader(getattr(load_payload_module(cls.API_KEY, version, kind), cls.__name__))
    entity, size = read(data, 0)
    kio_write = KioWriter(entity)
    assert size == len(data)
    assert kio_write() == data
    view = memoryview(data)
    encode, kio_encode, decode, kio_decode = medians(
        [lambda: message.encode(version), kio_write, lambda: cls.decode(view, version), lambda: read(data, 0)],
        rounds,
        seconds,
    )
    return {
        "message": case.name,
        "version": version,
        "bytes": len(data),
        "encode_us": encode,
        "kio_encode_us": kio_encode,
        "encode_speedup": kio_encode / encode,
        "decode_us": decode,
        "kio_decode_us": kio_decode,
        "decode_ratio": decode / kio_decode,
    }


def produce_round(version: int) -> Callable[[], object]:
    """What a broker spends on the messages of a one-record produce: decode the request, build and encode the answer."""
    frame = memoryview(encode_request(RequestHeader(ApiKey.PRODUCE, version, 1, "client"), produce_request()))[4:]
    request = API[ApiKey.PRODUCE].request

    def run() -> object:
        header, start = decode_request_header(frame)
        message: Any = request.decode(frame, header.api_version, start)
        topic = message.topic_data[0]
        partition = PartitionProduceResponse(index=topic.partition_data[0].index, base_offset=5, log_start_offset=0)
        answer = ProduceResponse(responses=[TopicProduceResponse(name=topic.name, partition_responses=[partition])])
        return encode_response_parts(header, answer)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description="Encode and decode cost of messages, against kio.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds (under a minute)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    rounds, seconds = (5, 0.02) if options.quick else (15, 0.1)
    rows = [measure(case, rounds, seconds) for case in CASES]
    round_trips = {f"v{version}": medians([produce_round(version)], rounds, seconds)[0] for version in (9, 11)}
    if options.json:
        json.dump({"messages": rows, "produce_round_us": round_trips}, sys.stdout)
        print()
        return
    head = ("message", "v", "bytes", "encode µs", "kio", "speed-up", "decode µs", "kio", "ratio")
    print("{:40}{:>4}{:>8}{:>11}{:>10}{:>10}{:>11}{:>10}{:>8}".format(*head))
    for row in rows:
        print(
            f"{row['message']:40}{row['version']:>4}{row['bytes']:>8}{row['encode_us']:>11.2f}{row['kio_encode_us']:>10.2f}"
            f"{row['encode_speedup']:>9.1f}x{row['decode_us']:>11.2f}{row['kio_decode_us']:>10.2f}{row['decode_ratio']:>7.1f}x"
        )
    for name, value in round_trips.items():
        print(f"produce round {name}: {value:.2f} µs")


if __name__ == "__main__":
    main()
