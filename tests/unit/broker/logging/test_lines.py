"""What a line looks like, and where it is written."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.logging.files import QUEUED_LINES, FileSettings, LogFiles
from broker.logging.formats import formatter


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """As in a broker's process: the cluster tests silence "kafka" for the sake of a client of that name."""
    levels = {logging.getLogger(): logging.INFO, logging.getLogger("kafka"): logging.NOTSET}
    before = {logger: logger.level for logger in levels}
    for logger, level in levels.items():
        logger.setLevel(level)
    yield
    for logger, level in before.items():
        logger.setLevel(level)


def record(message: str, *arguments: object, exc_info: bool = False) -> logging.LogRecord:
    error = None
    if exc_info:
        try:
            raise ValueError("broken\nin two")
        except ValueError as raised:
            error = (ValueError, raised, raised.__traceback__)
    return logging.LogRecord("some.logger", logging.WARNING, __file__, 1, message, arguments, error)


def test_a_client_cannot_write_a_line_of_its_own() -> None:
    line = formatter("text").format(record("client id %s", "x\n[2026] ERROR all is lost\r\x1b[2J"))
    assert "\n" not in line
    assert "\x1b" not in line
    assert "client id x\\n[2026] ERROR all is lost\\r\\x1b[2J (some.logger)" in line


def test_json_is_one_object_a_line() -> None:
    line = formatter("json").format(record("client id %s", "x\ny", exc_info=True))
    assert "\n" not in line
    found = json.loads(line)
    assert found["message"] == "client id x\ny"
    assert (found["level"], found["logger"]) == ("WARNING", "some.logger")
    assert "ValueError: broken\nin two" in found["exception"]
    assert found["time"].count("T") == 1


def started(directory: Path, max_bytes: int = 1 << 20, backups: int = 2) -> LogFiles:
    files = LogFiles(FileSettings(directory, max_bytes, backups), formatter("text"))
    files.start()
    return files


def test_kafka_s_streams_have_files_of_their_own(tmp_path: Path) -> None:
    files = started(tmp_path)
    lines = {
        "server.log": "broker.server",
        "controller.log": "controller.event_manager",
        "state-change.log": "controller.partition_state_machine",
        "log-cleaner.log": "log.cleaner.threads",
        "kafka-request.log": "kafka.request.logger",
        "kafka-authorizer.log": "kafka.authorizer.logger",
    }
    for name in lines.values():
        logging.getLogger(name).warning("from %s", name)
    files.stop()
    for file, name in lines.items():
        written = (tmp_path / file).read_text()
        assert written.splitlines()[0].endswith(f"WARNING from {name} ({name})")
        assert written.count("from ") == 1
    assert logging.getLogger("controller").propagate


def test_files_rotate_by_size(tmp_path: Path) -> None:
    files = started(tmp_path, max_bytes=4096)
    for number in range(200):
        logging.getLogger("broker.server").info("line %d %s", number, "x" * 50)
    files.stop()
    kept = sorted(path.name for path in tmp_path.glob("server.log*"))
    assert kept == ["server.log", "server.log.1", "server.log.2"]
    assert all(path.stat().st_size <= 4096 for path in tmp_path.glob("server.log*"))
    assert "line 199 " in (tmp_path / "server.log").read_text()


def test_nobody_waits_for_the_disk_and_lost_lines_are_counted(tmp_path: Path) -> None:
    files = started(tmp_path)
    held, writing = threading.Event(), threading.Event()
    handler = files._files["server.log"]
    write = handler.handle

    def slow(record: logging.LogRecord) -> bool:
        writing.set()
        held.wait(30)
        return bool(write(record))

    handler.handle = slow  # type: ignore[method-assign]
    log = logging.getLogger("broker.server")
    log.info("first")
    assert writing.wait(30)
    for number in range(QUEUED_LINES + 5):
        log.info("line %d", number)  # would never return, were the queue waited for
    held.set()
    files.flush()
    log.info("last")
    files.stop()
    written = (tmp_path / "server.log").read_text()
    assert f"line {QUEUED_LINES - 1} (" in written
    assert f"line {QUEUED_LINES} (" not in written
    assert "5 lines were dropped, because more came than could be written" in written
    assert written.splitlines()[-1].endswith("last (broker.server)")


def test_a_file_that_cannot_be_written_to_is_complained_of_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = started(tmp_path)
    full = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115  # the handler closes it
    files._files["server.log"].stream = full
    for _ in range(3):
        logging.getLogger("broker.server").info("lost")
    files.stop()
    said = capsys.readouterr().err
    assert said.count("odradek: cannot write to") == 1
    assert "Traceback" not in said
