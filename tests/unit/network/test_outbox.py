"""Writing what is queued for a connection."""

from __future__ import annotations

from pathlib import Path

from network.outbox import BLOCKED, DONE, Outbox
from network.transport import PlaintextTransport


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
    def __init__(self, fd: int, size: int) -> None:
        self.fd, self.position, self.size, self.released = fd, 0, size, 0

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
