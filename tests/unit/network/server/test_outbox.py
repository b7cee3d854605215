"""Writing what is queued for a connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from network.server.outbox import BLOCKED, DONE, Outbox, read_small_ranges
from network.server.transport import PlaintextTransport


class _Transport(PlaintextTransport):
    """Takes `room` bytes of a file at a time."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.offered: list[int] = []
        self.supports_sendfile = True

    def sendfile(self, fd: int, position: int, count: int) -> int:
        self.offered.append(count)
        return min(count, self.room)


class _Range:
    def __init__(self, fd: int, size: int, position: int = 0) -> None:
        self.fd, self.position, self.size, self.released = fd, position, size, 0

    def read(self) -> bytes:
        raise AssertionError("sent from the file")

    def release(self) -> None:
        self.released += 1


def test_a_full_socket_is_not_asked_twice(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    with path.open("rb") as file:
        outbox, transport, part = Outbox(), _Transport(400), _Range(file.fileno(), 1000)
        outbox.extend([part])
        assert outbox.write(transport) == BLOCKED
        assert transport.offered == [1000]
        assert outbox.write(transport) == BLOCKED
        assert part.released == 0
        assert outbox.write(transport) == DONE
        assert transport.offered == [1000, 600, 200]
        assert part.released == 1


def test_small_ranges_are_read_and_joined_with_their_neighbours(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = bytes(range(256)) * 1000
    path.write_bytes(content)
    with path.open("rb") as file:
        fd = file.fileno()
        small, empty, large = _Range(fd, 300, 7), _Range(fd, 0), _Range(fd, 100_000)
        parts = read_small_ranges([b"head", small, memoryview(b"-"), empty, b"-", large, b"tail"])
        assert parts == [b"head" + content[7:307] + b"--", large, b"tail"]
        assert [small.released, empty.released, large.released] == [1, 1, 0]


def test_what_is_read_of_one_answer_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(8192))
    big = bytes(70_000)
    with path.open("rb") as file:
        ranges = [_Range(file.fileno(), 8192) for _ in range(20)]
        parts = read_small_ranges([big, *ranges])
        assert parts[0] is big
        assert sum(each.released for each in ranges) <= 8
        assert [part for part in parts if isinstance(part, _Range)] == [each for each in ranges if not each.released]


def test_a_small_range_behind_the_end_of_its_file_stays_a_range(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"short")
    with path.open("rb") as file:
        cut = _Range(file.fileno(), 100)
        assert read_small_ranges([b"head", cut]) == [b"head", cut]
        assert cut.released == 0


def test_a_range_that_is_finished_twice_is_noticed(tmp_path: Path) -> None:
    outbox, first, second = Outbox(), _Range(0, 10), _Range(0, 10)
    outbox.extend([first, second])
    outbox._finish_range(first)
    with pytest.raises(AssertionError, match="released twice"):
        outbox._finish_range(first)
    assert (first.released, second.released) == (1, 0)
