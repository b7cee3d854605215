"""A client that costs almost nothing: the same frame again and again on many connections, one in flight on each.

It looks at the length of an answer and at its error code, which has to stand at a fixed place from the end, and decodes
nothing else. So what is measured is the server, also on a machine with two cores.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from log.topic_partition import TopicPartition
from network.protocol.header import RequestHeader, encode_request_parts
from network.protocol.message import Request
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.wire import batch

WAIT_S = 30.0
VERSION = 7
"""Of both requests: the last of Produce that the sink knows, and of OffsetCommit without flexible fields."""

PRODUCE_ERROR_AT = -(2 + 8 + 8 + 8 + 4)
"""Before base offset, append time, log start offset and throttle time."""

COMMIT_ERROR_AT = -2
"""The last field."""


@dataclass(frozen=True)
class Exchanged:
    """Answers, the seconds they took together, and of each how many milliseconds, in order."""

    count: int
    seconds: float
    latencies_ms: list[float]


def frame_of(message: Request) -> bytes:
    header = RequestHeader(message.API_KEY, VERSION, 1, "hammer")
    parts = encode_request_parts(header, message)
    return b"".join(part for part in parts if isinstance(part, (bytes, memoryview)))


def produce_frame(topic: str, size: int = 100, partition: int = 0) -> bytes:
    """One record, acks=1."""
    data = PartitionProduceData(index=partition, records=batch([bytes(size)]))
    return frame_of(
        ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    )


def commit_frame(group: str, partition: TopicPartition, offset: int) -> bytes:
    """One offset of a consumer that is in no group's membership."""
    entry = OffsetCommitRequestPartition(
        partition_index=partition.partition, committed_offset=offset, committed_metadata=""
    )
    topics = [OffsetCommitRequestTopic(name=partition.topic, partitions=[entry])]
    return frame_of(OffsetCommitRequest(group_id=group, topics=topics))


def wait_answered(address: str, frame: bytes, error_at: int) -> None:
    """Until an answer has no error, because the partition is led and the coordinator has loaded.

    Raises RuntimeError with the last error when 30 s were not enough.
    """
    until = time.monotonic() + WAIT_S
    while True:
        try:
            exchange(address, [frame], error_at, 0)
            return
        except RuntimeError:
            if time.monotonic() > until:
                raise
        time.sleep(0.1)


def exchange(
    address: str,
    frames: Sequence[bytes],
    error_at: int,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> Exchanged:
    """A connection a frame, each sent again when its answer is there, for so long.

    Raises RuntimeError for an answer with an error, a closed connection, and 30 s without any answer.
    """
    return exchange_with([(address, frame) for frame in frames], error_at, seconds, clock)


def exchange_with(
    frames: Sequence[tuple[str, bytes]],
    error_at: int,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> Exchanged:
    """`exchange` with several servers: the address of each frame stands before it."""
    took: list[float] = []
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        sockets: dict[int, tuple[socket.socket, bytes]] = {}
        for address, frame in frames:
            host, _, port = address.rpartition(":")
            one = stack.enter_context(socket.create_connection((host, int(port)), WAIT_S))
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sockets[one.fileno()] = (one, frame)
            poll.register(one.fileno(), select.EPOLLIN)
        sent: dict[int, float] = {}
        partial: dict[int, bytes] = {}
        began = clock()
        until = began + seconds
        for fd, (one, frame) in sockets.items():
            sent[fd] = clock()
            one.sendall(frame)
        while sent:
            ready = poll.poll(WAIT_S)
            if not ready:
                raise RuntimeError(f"no answer on any of {len(sent)} connections for {WAIT_S:g} s")
            for fd, _ in ready:
                one, frame = sockets[fd]
                data = partial.pop(fd, b"") + (got := one.recv(65536))
                if not got:
                    raise RuntimeError("the server closed a connection")
                if len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
                    partial[fd] = data
                    continue
                (code,) = struct.unpack_from(">h", data, len(data) + error_at)
                if code:
                    raise RuntimeError(f"an answer with error {code}")
                now = clock()
                took.append((now - sent.pop(fd)) * 1000)
                if now < until:
                    sent[fd] = now
                    one.sendall(frame)
        seconds = clock() - began
    took.sort()
    return Exchanged(len(took), seconds, took)
