"""A range read from a leader that is hinted at, moves, and is unknown for a moment: scripted answers."""

from __future__ import annotations

from typing import Any

import pytest

from network.client.cluster_metadata import BrokerAddress
from network.client.connection import ConnectionFailed
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from spark_jobs import fetcher as subject
from spark_jobs.planning import Range
from tests.unit.spark_jobs.made_up import PassingClock, read_options

OLD, NEW = BrokerAddress(1, "old", 1), BrokerAddress(2, "new", 2)


class Metadata:
    """Says what it is told to, one after the other."""

    def __init__(self, *answers: BrokerAddress | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0

    def broker(self, topic: str, partition: int, preferred: int | None) -> BrokerAddress:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def refresh(self, topic: str) -> None: ...


def read(monkeypatch: pytest.MonkeyPatch, metadata: Metadata, leader: BrokerAddress | None, **moved: Any) -> list[str]:
    """Read ten offsets of one byte each; gives the hosts that were connected to. ``moved``: what a host answers."""
    hosts: list[str] = []

    class Connection:
        def __init__(self, host: str, port: int, client_id: str, clock: Any, wrap: Any) -> None:
            hosts.append(host)
            self.host = host
            if moved.get(host) == "dead":
                raise ConnectionFailed("refused")

        def send_request(self, request: Any, version: int) -> None: ...

        def receive_response(self) -> FetchResponse:
            code = moved.get(self.host, ErrorCode.NONE)
            data = PartitionData(partition_index=0, error_code=int(code), records=memoryview(b"x"), high_watermark=10)
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

        def close(self) -> None: ...

    monkeypatch.setattr(subject, "Connection", Connection)
    options = read_options(**{"kafkaConsumer.pollTimeoutMs": "1000"})  # type: ignore[arg-type]
    range_ = Range("t", 0, 0, 10)
    reading = subject.PartitionFetcher(
        metadata,  # type: ignore[arg-type]
        options,
        range_,
        lambda records: 10,
        PassingClock(),
        pytest.fail,
        leader,
    )
    assert [answer.offset for answer in reading] == [0]
    return hosts


def test_a_hint_needs_no_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = Metadata()
    assert read(monkeypatch, metadata, OLD) == ["old"]
    assert metadata.asked == 0


@pytest.mark.parametrize("answer", ["dead", ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_leader_that_moved_is_looked_up(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    assert read(monkeypatch, Metadata(NEW), OLD, old=answer) == ["old", "new"]


def test_metadata_errors_that_pass_are_borne(monkeypatch: pytest.MonkeyPatch) -> None:
    passing = [ApiError(code, "t") for code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)]
    assert read(monkeypatch, Metadata(*passing, NEW), None) == ["new"]


def test_errors_that_stay_end_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ApiError):
        read(monkeypatch, Metadata(ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t")), None)
    never = [ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "t")] * 100
    with pytest.raises(TimeoutError, match="pollTimeoutMs"):
        read(monkeypatch, Metadata(*never), None)
