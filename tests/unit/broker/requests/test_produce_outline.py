"""A Produce of very many partitions is told from its lengths alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.requests import produce_outline
from broker.requests.produce_outline import MAX_TAGS, has_more_than
from network.protocol.errors import ProtocolError
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from network.protocol.primitives import encode_unsigned_varint
from tests.support.messages import structs

VERSIONS = range(12)


def produce(topics: int, partitions: int) -> ProduceRequest:
    each = [PartitionProduceData(index=number, records=b"xy") for number in range(partitions)]
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=1_000,
        topic_data=[TopicProduceData(name=f"topic-{number}", partition_data=each) for number in range(topics)],
    )


@st.composite
def versioned(draw: st.DrawFn) -> tuple[ProduceRequest, int]:
    version = draw(st.sampled_from(VERSIONS))
    return draw(structs(ProduceRequest, version)), version


def things(request: Any) -> int:
    return sum(1 + len(topic.partition_data or ()) for topic in request.topic_data or ())


@given(versioned(), st.integers(0, 8))
@example((produce(3, 2), 2), 8)
def test_it_is_the_number_of_topics_and_partitions(drawn: tuple[ProduceRequest, int], bound: int) -> None:
    request, version = drawn
    assert has_more_than(bound, memoryview(request.encode(version)), version) is (things(request) > bound)


@pytest.mark.parametrize("version", [2, 8, 9, 11])
@pytest.mark.parametrize(("topics", "partitions"), [(1, 30_000), (30_000, 1), (30_000, 0)])
def test_no_more_than_the_bound_is_looked_at(
    version: int, topics: int, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[int] = []
    plain = produce_outline._Outline.pass_bytes

    def counting(self: Any, size: int) -> None:
        passed.append(size)
        plain(self, size)

    monkeypatch.setattr(produce_outline._Outline, "pass_bytes", counting)
    assert has_more_than(100, memoryview(produce(topics, partitions).encode(version)), version)
    assert len(passed) < 1_000


@pytest.mark.parametrize("version", VERSIONS)
def test_one_that_ends_too_early_is_told(version: int) -> None:
    whole = memoryview(produce(2, 3).encode(version))
    for size in range(len(whole)):
        if size == len(whole) - 1 and version >= ProduceRequest.FLEXIBLE_VERSION:
            continue  # tags of the request itself: nobody looks that far
        with pytest.raises((ProtocolError, IndexError)):
            has_more_than(100, whole[:size], version)


def test_tagged_fields_count_and_very_many_are_refused() -> None:
    def with_tags(count: int) -> memoryview:
        topics = encode_unsigned_varint(2) + encode_unsigned_varint(2) + b"t"
        partition = encode_unsigned_varint(2) + bytes(4) + encode_unsigned_varint(0)
        tags = b"".join(encode_unsigned_varint(tag) + encode_unsigned_varint(0) for tag in range(count))
        return memoryview(bytes([0]) + bytes(6) + topics + partition + encode_unsigned_varint(count) + tags + b"\0\0")

    assert not has_more_than(MAX_TAGS + 2, with_tags(MAX_TAGS), 9)
    assert has_more_than(MAX_TAGS + 1, with_tags(MAX_TAGS), 9)
    with pytest.raises(ProtocolError):
        has_more_than(1_000_000, with_tags(MAX_TAGS + 1), 9)
