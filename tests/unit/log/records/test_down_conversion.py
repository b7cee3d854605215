"""What old readers get, from this process and from the one for conversions, and what becomes of that one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from log.errors import CorruptRecordError, DecompressionError, UnsupportedCompressionTypeError
from log.files.file_range import LogFileRange, OpenFile
from log.helper_process import start_helper
from log.records.batch import HEADER_SIZE
from log.records.compression import Codec
from log.records.conversion_process import _ANSWER, _REQUEST, ConversionProcess, ConversionProcessDiedError, _serve
from log.records.down_conversion import Convert, convert_here
from log.records.old_formats import encode_message, iter_entries
from log.records.record import ControlType, EndTxnMarker, Record, build_end_txn_marker, iter_records
from tests.support.batches import build_batch, down_convert
from tests.support.open_files import open_files

NOW = 1_700_000_000_000


def _records(first: int, count: int = 20) -> list[Record]:
    return [Record(first + i, NOW + i, b"k%d" % i, os.urandom(50), (("h", b"x"),)) for i in range(count)]


@pytest.fixture
def process() -> Iterator[ConversionProcess]:
    process = ConversionProcess()
    yield process
    process.close()


@pytest.fixture(params=["here", "process"])
def convert(request: pytest.FixtureRequest, process: ConversionProcess) -> Convert:
    return convert_here if request.param == "here" else process.convert


@pytest.fixture
def source(tmp_path: Path) -> SourceOf:
    return SourceOf(tmp_path / "log")


class SourceOf:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, data: bytes) -> LogFileRange:
        """A range in the midst of a file."""
        self._path.write_bytes(b"before" + data + b"after")
        return LogFileRange(OpenFile(os.open(self._path, os.O_RDONLY)), 6, len(data))


def _read(records: bytes | LogFileRange) -> bytes:
    return records if isinstance(records, bytes) else records.read()


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[], int]:
    """How many files and sockets the test has open, beyond those of its beginning."""
    before = open_files(tmp_path)
    return lambda: len(open_files(tmp_path) - before)


MIXED = b"".join((
    encode_message(0, 8, -1, b"k", b"of old"),
    encode_message(1, 9, NOW, b"k", b"of old"),
    build_batch(_records(10)),
    build_end_txn_marker(7, 0, EndTxnMarker(ControlType.COMMIT, 0), NOW, base_offset=30),
    build_batch(_records(31), codec=Codec.LZ4),
    build_batch(_records(51), codec=Codec.GZIP, log_append_time=NOW),
    build_batch(_records(71, 60))[:-1],
))  # fmt: skip


@pytest.mark.parametrize("magic", [0, 1])
def test_it_is_what_the_conversion_says(convert: Convert, source: SourceOf, magic: int) -> None:
    found = convert(source(MIXED), magic, 12)
    assert found is not None
    data = _read(found.records)
    assert len(found.records) == len(data)
    assert data == down_convert(iter_entries(MIXED), magic, 12)
    offsets = [record.offset for entry in iter_entries(data) for record in iter_records(entry)]
    assert offsets == [8, 9, *range(12, 30), *range(31, 71)]
    assert found.rewritten == 58 + (magic == 0)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_it_gets_no_more_bytes_than_there_were(convert: Convert, source: SourceOf, codec: Codec) -> None:
    small = [Record(i, NOW, None, b"") for i in range(100)]
    batches = [build_batch(small, codec=codec), build_batch([r._replace(offset=100 + r.offset) for r in small])]
    data = b"".join(batches)
    whole = [down_convert(iter_entries(each), 1) for each in batches]
    found = convert(source(data), 1, 0)
    assert found is not None
    # Without a codec the first batch alone has become larger than both were.
    limit = max(len(data), len(whole[0]))
    assert _read(found.records) == b"".join(whole)[:limit]
    assert limit < sum(map(len, whole))


def test_what_an_old_reader_can_read_is_left_alone(convert: Convert, source: SourceOf) -> None:
    old = encode_message(0, 8, -1, b"k", b"of old") + encode_message(1, 9, NOW, b"k", b"of old")
    assert convert(source(old), 1, 8) is None
    assert convert(source(old), 0, 8) is not None  # not the first is too new
    assert convert(source(old[:10]), 0, 8) is None


def test_what_holds_nothing_for_old_readers(convert: Convert, source: SourceOf) -> None:
    marker = build_end_txn_marker(7, 0, EndTxnMarker(ControlType.COMMIT, 0), NOW, base_offset=30)
    for data in (bytes(marker), bytes(build_batch(_records(10)))[:70]):
        found = convert(source(data), 1, 0)
        assert found is not None
        assert (_read(found.records), found.rewritten) == (b"", 0)


def test_a_codec_of_today_ends_what_an_old_reader_gets(convert: Convert, source: SourceOf) -> None:
    readable, not_readable = build_batch(_records(10)), build_batch(_records(30), codec=Codec.ZSTD)
    found = convert(source(bytes(readable + not_readable)), 1, 10)
    assert found is not None
    assert _read(found.records) == down_convert(iter_entries(readable), 1)
    with pytest.raises(UnsupportedCompressionTypeError, match="zstd"):
        convert(source(bytes(not_readable + readable)), 1, 30)


def test_damage_is_said_in_the_same_words(
    process: ConversionProcess, source: SourceOf, opened: Callable[[], int]
) -> None:
    packed = build_batch(_records(10), codec=Codec.GZIP)
    packed[HEADER_SIZE + 20] ^= 0xFF
    sizeless = build_batch(_records(10))
    sizeless[8:12] = b"\xff" * 4
    for data, kind in ((packed, DecompressionError), (sizeless, CorruptRecordError)):
        for convert in (convert_here, process.convert):
            with pytest.raises(kind) as said:
                convert(source(bytes(data)), 1, 10)
            words = str(said.value)
            del said
        with pytest.raises(kind, match=f"^{words}$"):
            process.convert(source(bytes(data)), 1, 10)
    short = LogFileRange(source(b"")._file, 0, 1000)  # type: ignore[arg-type]
    for convert in (convert_here, process.convert):
        with pytest.raises(EOFError, match="file ended after 11 of 1000 bytes"):
            convert(short, 1, 10)
    assert process.pid is not None
    short.release()
    assert opened() == 1  # the socket


@pytest.fixture
def hands_over_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their size."""
    monkeypatch.setattr("log.records.conversion_process.SMALL_BYTES", 0)


def test_descriptors_are_few(
    process: ConversionProcess,
    source: SourceOf,
    opened: Callable[[], int],
    hands_over_files: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("log.records.conversion_process.MAX_FILES", 2)
    records = source(MIXED)
    process.convert(records, 1, 0)  # starts it
    before = opened()
    found = [process.convert(records, 1, 0) for _ in range(4)]
    made = [each.records for each in found if each is not None]
    assert [type(each) for each in made] == [LogFileRange, LogFileRange, bytes, bytes]
    assert len({_read(each) for each in made}) == 1
    assert opened() == before + 2
    first = made[0]
    assert isinstance(first, LogFileRange)
    first.release()
    again = process.convert(records, 1, 0)
    assert again is not None
    assert isinstance(again.records, LogFileRange)
    assert opened() == before + 2


def test_what_is_small_takes_no_descriptor(
    process: ConversionProcess, source: SourceOf, opened: Callable[[], int]
) -> None:
    records = source(MIXED)
    process.convert(records, 1, 0)
    before = opened()
    found = process.convert(records, 1, 0)
    assert found is not None
    assert isinstance(found.records, bytes)
    assert opened() == before


def test_what_the_process_may_not_do_is_no_fault_of_records(
    process: ConversionProcess, source: SourceOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = _ANSWER.pack(2, 0, 0) + b"PermissionError\n[Errno 13] Permission denied"
    monkeypatch.setattr("socket.recv_fds", lambda *_: (answer, [], 0, None))
    with pytest.raises(ConversionProcessDiedError, match=r"has failed: PermissionError: .* denied"):
        process.convert(source(MIXED), 1, 0)


def test_the_process_tells_what_it_may_not_do(source: SourceOf, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.memfd_create", refused)
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    records = source(MIXED)
    with ours, its:
        socket.send_fds(ours, [_REQUEST.pack(records.position, records.size, 0, 1)], [records.fd])
        ours.shutdown(socket.SHUT_WR)
        _serve(its)
        answer = ours.recv(1000)
    assert answer[_ANSWER.size :] == b"PermissionError\n[Errno 13] Permission denied"


def test_an_interrupt_while_it_starts(
    process: ConversionProcess, source: SourceOf, opened: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def start(*arguments: Any) -> subprocess.Popen[bytes]:
        process.interrupt()  # finds nothing yet
        running = start_helper(*arguments)
        started.append(running.pid)
        return running

    monkeypatch.setattr("log.records.conversion_process.start_helper", start)
    with pytest.raises(ConversionProcessDiedError, match="status -9"):
        process.convert(source(MIXED), 1, 0)
    (pid,) = started
    assert not _is_there(pid)
    with pytest.raises(ConversionProcessDiedError, match="no more conversions"):
        process.convert(source(MIXED), 1, 0)
    assert len(started) == 1
    assert opened() == 0


def test_nothing_is_left_behind(
    process: ConversionProcess, source: SourceOf, opened: Callable[[], int], hands_over_files: None
) -> None:
    for _ in range(3):
        records = source(MIXED)
        found = process.convert(records, 1, 0)
        assert found is not None
        assert isinstance(found.records, LogFileRange)
        found.records.release()
        records.release()
    pid = process.pid
    assert pid is not None
    assert process.close() == 0
    assert not _is_there(pid)
    assert process.pid is None
    assert opened() == 0
    assert process.close() is None


def test_a_killed_process_is_told_and_the_next_is_another(process: ConversionProcess, source: SourceOf) -> None:
    assert process.convert(source(MIXED), 1, 0) is not None
    pid = process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ConversionProcessDiedError, match="status -9"):
        process.convert(source(MIXED), 1, 0)
    assert process.pid is None
    assert process.convert(source(MIXED), 1, 0) is not None
    assert process.pid not in (None, pid)


def test_a_stuck_process_is_killed(
    process: ConversionProcess, source: SourceOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("log.records.conversion_process.ANSWER_S", 0.3)
    process._start()
    pid = process.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(ConversionProcessDiedError, match="status -9"):
        process.convert(source(MIXED), 1, 0)
    assert not _is_there(pid)


def test_a_process_that_cannot_be_had(
    process: ConversionProcess, source: SourceOf, opened: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(ConversionProcessDiedError, match="cannot be started"):
        process.convert(source(MIXED), 1, 0)
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(ConversionProcessDiedError, match="status 1"):
        process.convert(source(MIXED), 1, 0)
    assert opened() == 0


def test_it_ends_with_the_broker(process: ConversionProcess, source: SourceOf) -> None:
    """And by nothing that tells all processes of a service to end."""
    assert process.convert(source(MIXED), 1, 0) is not None  # so it has said that it does not want the signal
    running, connection = process._process, process._socket
    assert running is not None
    assert connection is not None
    running.send_signal(signal.SIGTERM)
    assert process.convert(source(MIXED), 1, 0) is not None
    process._process = process._socket = None
    connection.close()
    assert running.wait(60) == 0
