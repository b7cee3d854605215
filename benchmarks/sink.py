"""A server that speaks just enough of the protocol to keep a client busy and does nothing else: the ceiling.

    python -m benchmarks.sink

Prints its port. One topic with one partition, whatever it is called. Produced records are read from the socket and
forgotten; a fetch is answered from one prepared run of record batches whose base offsets are set to what was asked
for. No storage, no threads, no checks.
"""

from __future__ import annotations

import select
import socket
import struct
from typing import Any

from log.records.record import Record
from network.protocol.header import RequestHeader, decode_request_header, encode_response
from network.protocol.message import Message
from network.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from network.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from network.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from network.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from network.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.batches import build_batch

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
VERSIONS = {PRODUCE: (3, 7), FETCH: (4, 4), LIST_OFFSETS: (1, 1), METADATA: (1, 4), API_VERSIONS: (0, 2)}
RECEIVE_BYTES = 1 << 20
BATCHES = 8
RECORDS_A_FETCH = {1000: 1024, 100: 8192}


def prepared_batches(record_bytes: int) -> tuple[bytearray, list[int]]:
    """About 1 MB of record batches and where each begins."""
    count = RECORDS_A_FETCH[record_bytes] // BATCHES
    records = [Record(offset=at, timestamp=1, key=None, value=bytes(record_bytes), headers=()) for at in range(count)]
    batch = build_batch(records)
    data = bytearray(batch * BATCHES)
    return data, [at * len(batch) for at in range(BATCHES)]


class Sink:
    """All connections in one loop."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.produce_answers: dict[int, bytes] = {}
        self.fetches = {size: prepared_batches(size) for size in RECORDS_A_FETCH}

    def run(self) -> None:
        poll = select.epoll()
        poll.register(self.listener, select.EPOLLIN)
        connections: dict[int, SinkConnection] = {}
        while True:
            for fd, _ in poll.poll():
                if fd == self.listener.fileno():
                    sock, _ = self.listener.accept()
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    connections[sock.fileno()] = SinkConnection(self, sock)
                    poll.register(sock.fileno(), select.EPOLLIN)
                elif not connections[fd].serve():
                    poll.unregister(fd)
                    connections.pop(fd).sock.close()

    def answer(self, header: RequestHeader, frame: memoryview, offset: int) -> list[Any]:
        if header.api_key == FETCH:
            return self.fetch(header, FetchRequest.decode(frame, header.api_version, offset))
        return [encode_response(header, self.respond(header, frame, offset))]

    def respond(self, header: RequestHeader, frame: memoryview, offset: int) -> Message:
        if header.api_key == API_VERSIONS:
            keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in VERSIONS.items()]
            return ApiVersionsResponse(error_code=0 if header.api_version <= 2 else 35, api_keys=keys)
        if header.api_key == METADATA:
            asked = MetadataRequest.decode(frame, header.api_version, offset).topics or []
            partition = MetadataResponsePartition(leader_id=1, replica_nodes=[1], isr_nodes=[1])
            return MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)],
                controller_id=1,
                topics=[MetadataResponseTopic(name=each.name, partitions=[partition]) for each in asked],
            )
        if header.api_key == LIST_OFFSETS:
            topic = ListOffsetsRequest.decode(frame, header.api_version, offset).topics[0]
            partitions = [ListOffsetsPartitionResponse(partition_index=0, timestamp=-1, offset=0)]
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=partitions)])
        request = ProduceRequest.decode(frame, header.api_version, offset)
        done = PartitionProduceResponse(index=0, base_offset=0)
        return ProduceResponse(
            responses=[TopicProduceResponse(name=request.topic_data[0].name, partition_responses=[done])]
        )

    def fetch(self, header: RequestHeader, request: FetchRequest) -> list[Any]:
        topic = request.topics[0]
        offset = topic.partitions[0].fetch_offset
        size = 1000 if topic.topic.endswith("1000") else 100
        data, starts = self.fetches[size]
        count = RECORDS_A_FETCH[size] // BATCHES
        for number, start in enumerate(starts):
            struct.pack_into(">q", data, start, offset + number * count)
        end = offset + BATCHES * count
        partition = PartitionData(partition_index=0, high_watermark=end, last_stable_offset=end, records=b"")
        response = FetchResponse(responses=[FetchableTopicResponse(topic=topic.topic, partitions=[partition])])
        empty = bytearray(encode_response(header, response))
        struct.pack_into(">i", empty, 0, len(empty) - 4 + len(data))
        struct.pack_into(">i", empty, len(empty) - 4, len(data))  # the records' length is the last field
        return [bytes(empty), data]


class SinkConnection:
    """Blocking reads and writes: the client is the only one to wait for."""

    def __init__(self, sink: Sink, sock: socket.socket) -> None:
        self.sink = sink
        self.sock = sock
        self.buffer = bytearray(RECEIVE_BYTES)
        self.filled = 0
        self.produced: bytes | None = None

    def serve(self) -> bool:
        count = self.sock.recv_into(memoryview(self.buffer)[self.filled :])
        if not count:
            return False
        self.filled += count
        at = 0
        answers: list[Any] = []
        while self.filled - at >= 4:
            (size,) = struct.unpack_from(">i", self.buffer, at)
            if self.filled - at < 4 + size:
                if 4 + size > len(self.buffer):
                    self.buffer.extend(bytes(4 + size - len(self.buffer)))
                break
            answers += self.frame(memoryview(self.buffer)[at + 4 : at + 4 + size])
            at += 4 + size
        if at:
            self.buffer[: self.filled - at] = self.buffer[at : self.filled]
            self.filled -= at
        for part in answers:
            self.sock.sendall(part)
        return True

    def frame(self, frame: memoryview) -> list[Any]:
        key = struct.unpack_from(">h", frame)[0]
        if key == PRODUCE and self.produced is not None:
            return [self.produced[:4] + bytes(frame[4:8]) + self.produced[8:]]  # the same answer, other correlation id
        header, offset = decode_request_header(frame)
        if key == API_VERSIONS and header.api_version > 2:
            header = RequestHeader(API_VERSIONS, 0, header.correlation_id)
            response = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, max_version=2)])
            return [encode_response(header, response)]
        answer = self.sink.answer(header, frame, offset)
        if key == PRODUCE:
            self.produced = answer[0]
        return answer


def main() -> None:
    sink = Sink()
    print(sink.port, flush=True)
    sink.run()


if __name__ == "__main__":
    main()
