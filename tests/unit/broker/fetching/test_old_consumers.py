"""What a Fetch of an old version is answered when records cannot go as they are, and what becomes of their files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.fetch import handle
from broker.fetching.conversion_queue import Failed, Job, run_at_once
from broker.fetching.fetch_contexts import SessionlessContext
from broker.quotas.quota_call import QuotaCall
from broker.replication.results import LogReadResult
from broker.requests.registry import Call
from log.files.file_range import LogFileRange, OpenFile
from log.records.down_conversion import convert_here
from log.records.old_formats import encode_message, iter_entries
from log.records.record import Record
from log.topic_partition import TopicPartition
from network.protocol.api import API, ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.header import RequestHeader
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from network.server.connection_info import ConnectionInfo
from network.server.request import CLOSE_CONNECTION, SEND, START_THROTTLING, Request
from tests.support.batches import build_batch
from timer.clock import ManualClock

TODAY = bytes(build_batch([Record(i, 1_700_000_000_000, b"k", b"v") for i in range(5)]))
OLD = encode_message(1, 0, 1_700_000_000_000, b"k", b"v")


class Fetched:
    """One Fetch of some partitions of a topic, by a client without quotas or with them that are not exceeded."""

    def __init__(self, path: Path, data: bytes, run: Callable[[Job, Failed], bool], **topic: Any) -> None:
        path.write_bytes(b"before" + data + b"after")
        config = {"compression_type": "producer", "message_downconversion_enable": True, **topic}
        self.ranges = [LogFileRange(OpenFile(os.open(path, os.O_RDONLY)), 6, len(data)) for _ in range(2)]
        self.log: Any = SimpleNamespace(config=SimpleNamespace(**config))
        self.said: list[tuple[int, Any]] = []
        self.gone = False
        self.has_quotas = False
        self.too_old: list[str] = []
        self.now_ns = lambda: 1
        results = [(TopicPartition("t", n), LogReadResult(records=each)) for n, each in enumerate(self.ranges)]
        self.broker: Any = SimpleNamespace(
            authorizer=SimpleNamespace(allows_everything=True),
            metadata_cache=SimpleNamespace(snapshot=SimpleNamespace(partition=lambda *_: self, topic_names={})),
            fetch_manager=SimpleNamespace(context=lambda *arguments: SessionlessContext(arguments[4])),
            fetch_max_bytes=1 << 20,
            replica_manager=SimpleNamespace(
                partitions=SimpleNamespace(get=lambda tp: SimpleNamespace(log=self.log)),
                fetch_messages=lambda params, entries, respond, standby: respond(results),
                metrics=SimpleNamespace(sent=lambda *_: None, fetch_converted=lambda *_: None),
                clock=ManualClock(),
            ),
            client_faults=SimpleNamespace(is_new=lambda subject, what: self.too_old.append(subject[2])),
            run_conversion=run,
            quotas=SimpleNamespace(
                fetch=SimpleNamespace(record=lambda *_: 0, largest=lambda *_: 1 << 20),
                request=SimpleNamespace(record=lambda *_: 0),
            ),
        )

    def respond(self, request: Request, kind: int, payload: Any) -> None:
        self.said.append((kind, payload))

    def is_gone(self, request: Request) -> bool:
        return self.gone

    def ask(self, version: int = 2) -> Fetched:
        partitions = [FetchPartition(partition=n, partition_max_bytes=1 << 20) for n in range(len(self.ranges))]
        message = FetchRequest(replica_id=-1, topics=[FetchTopic(topic="t", partitions=partitions)])
        header = RequestHeader(ApiKey.FETCH, version, 1)
        raw = Request(header, API[ApiKey.FETCH], memoryview(b""), 0, ConnectionInfo("id"), self, None, 1)
        handle((QuotaCall if self.has_quotas else Call)(raw, message, self.broker))
        return self

    @property
    def kinds(self) -> list[int]:
        return [kind for kind, _ in self.said]

    @property
    def answers(self) -> list[PartitionData]:
        (parts,) = [payload for kind, payload in self.said if kind == SEND]
        data = b"".join(part.read() if isinstance(part, LogFileRange) else part for part in parts)
        answer = API[ApiKey.FETCH].response.decode(data, 2, 8)
        return answer.responses[0].partitions  # type: ignore[attr-defined, no-any-return]

    @property
    def held(self) -> int:
        return sum(each.fd >= 0 for each in self.ranges)


def _refuse(job: Job, failed: Failed) -> bool:
    return False


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_records_are_converted(path: Path) -> None:
    fetched = Fetched(path, TODAY, run_at_once).ask()
    for answer in fetched.answers:
        assert answer.error_code == ErrorCode.NONE
        assert [entry.magic for entry in iter_entries(bytes(answer.records))] == [1] * 5  # type: ignore[arg-type]
    assert fetched.held == 0


@pytest.mark.parametrize("has_quotas", [False, True])
def test_where_too_many_wait_there_are_no_records_yet(path: Path, has_quotas: bool) -> None:
    fetched = Fetched(path, TODAY, _refuse)
    fetched.has_quotas = has_quotas
    fetched.ask()
    assert [(answer.error_code, bytes(answer.records or b"")) for answer in fetched.answers] == [(0, b"")] * 2  # type: ignore[arg-type]
    assert fetched.kinds == [START_THROTTLING, SEND]
    assert fetched.said[0][1] == 100
    assert fetched.held == 0


@pytest.mark.parametrize("converted", [0, 1])
def test_nothing_is_done_for_a_client_that_has_gone(path: Path, converted: int) -> None:
    jobs: list[Job] = []

    def later(job: Job, failed: Failed) -> bool:
        jobs.append(job)
        return True

    fetched = Fetched(path, TODAY, later).ask()
    assert fetched.said == []
    assert fetched.held == 2
    done: list[Any] = []

    def convert(*arguments: Any) -> Any:
        done.append(convert_here(*arguments))
        fetched.gone = True
        return done[-1]

    fetched.gone = not converted
    jobs[0](convert)
    assert len(done) == converted
    assert fetched.kinds == [CLOSE_CONNECTION]
    assert fetched.held == 0


def test_a_conversion_that_fails_ends_the_connection(path: Path) -> None:
    def run(job: Job, failed: Failed) -> bool:
        def fails(*_: Any) -> Any:
            raise MemoryError

        return run_at_once(lambda convert: job(fails), failed)

    fetched = Fetched(path, TODAY, run).ask()
    assert fetched.kinds == [CLOSE_CONNECTION]
    assert fetched.held == 0


def test_a_log_that_was_cut_fails_only_its_partition(path: Path) -> None:
    def convert(source: Any, magic: int, first_offset: int) -> Any:
        if source is fetched.ranges[0]:
            raise EOFError("file ended")
        return convert_here(source, magic, first_offset)

    def run(job: Job, failed: Failed) -> bool:
        job(convert)
        return True

    fetched = Fetched(path, TODAY, run)
    fetched.ask()
    assert [answer.error_code for answer in fetched.answers] == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    assert fetched.held == 0


def test_a_partition_that_has_gone_gives_no_records_in_a_format_of_today(path: Path) -> None:
    fetched = Fetched(path, TODAY, _refuse)
    fetched.log = None
    fetched.ask()
    assert [(answer.error_code, answer.high_watermark) for answer in fetched.answers] == [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    ] * 2
    assert not any(answer.records for answer in fetched.answers)
    assert fetched.kinds == [SEND]
    assert fetched.held == 0


@pytest.mark.parametrize(("data", "is_refused"), [(OLD, False), (OLD + TODAY, True)])
def test_a_topic_without_conversion_is_read_by_the_queue_only(path: Path, data: bytes, is_refused: bool) -> None:
    def run(job: Job, failed: Failed) -> bool:
        def never(*_: Any) -> Any:
            raise AssertionError("converted")

        job(never)
        return True

    fetched = Fetched(path, data, run, message_downconversion_enable=False)
    fetched.ask()
    codes = [answer.error_code for answer in fetched.answers]
    assert codes == [ErrorCode.UNSUPPORTED_VERSION if is_refused else ErrorCode.NONE] * 2
    assert fetched.too_old == ["t"] * 2 * is_refused
    if not is_refused:
        assert [bytes(answer.records) for answer in fetched.answers] == [data] * 2  # type: ignore[arg-type]


def test_of_a_topic_without_conversion_the_first_format_says_enough(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = Fetched(path, TODAY, _refuse, message_downconversion_enable=False)
    monkeypatch.setattr(LogFileRange, "read", lambda _: pytest.fail("read"))
    fetched.ask()
    assert [answer.error_code for answer in fetched.answers] == [ErrorCode.UNSUPPORTED_VERSION] * 2
    assert fetched.too_old == ["t", "t"]
    assert fetched.held == 0
