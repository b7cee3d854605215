"""The embedded ZooKeeper's server when its disk fails: it stops, and writes and tells nothing more."""

from __future__ import annotations

import asyncio
import struct

from controller.zk.embedded.connection import Settings
from controller.zk.embedded.machine import Limits, Machine
from controller.zk.embedded.server import Server
from controller.zk.embedded.sessions import Sessions
from controller.zk.embedded.transactions import Transaction
from timer.clock import SystemClock

_BODY = struct.pack(">iqiqi", 0, 0, 30_000, 0, 16) + bytes(16)
CONNECT = struct.pack(">i", len(_BODY)) + _BODY


class FullDisk:
    """A store whose every write fails."""

    def __init__(self) -> None:
        self.writes = 0
        self._pending = False

    def append(self, transaction: Transaction) -> None:
        self._pending = True

    def has_pending(self) -> bool:
        return self._pending

    def take(self) -> bytes:
        self._pending = False
        return b"frame"

    def write(self, data: bytes) -> None:
        self.writes += 1
        raise OSError(28, "No space left on device")


def test_nothing_follows_a_write_that_failed() -> None:
    async def run() -> None:
        store = FullDisk()
        server = Server(Machine(Sessions(1, b"secret"), Limits()), SystemClock(), Settings(), store)
        port = await server.start("127.0.0.1", 0)
        readers = []
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(CONNECT)
            readers.append((reader, writer))
            await asyncio.wait_for(server.stopped.wait(), 10)
            while server.machine.zxid < len(readers):
                await asyncio.sleep(0.01)
        assert server.failure is not None
        assert "No space left" in server.failure
        await asyncio.wait_for(server.stop(), 10)
        assert [await reader.read() for reader, _ in readers] == [b"", b""]
        assert store.writes == 1

    asyncio.run(run())
